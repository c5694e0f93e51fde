//! Who owns a private cluster, and where it lives.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{LocalPostgresError, MAX_SOCKET_PATH_BYTES, SOCKET_NAME};

/// Whom root becomes, the first that exists.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// How a cluster's directory starts, so that a person who finds one knows whose it is.
const PREFIX: &str = "bongsu-pg-";
/// The random characters after it.
const RANDOM_CHARS: usize = 6;

/// A user other than ourselves, to run the server as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The user to run the server as, if that cannot be ourselves: PostgreSQL refuses to run as root.
pub(super) fn needed() -> Result<Option<User>, LocalPostgresError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    match USERS.iter().find_map(|name| look_up(&passwd, name)) {
        Some(user) => Ok(Some(user)),
        None => Err(LocalPostgresError::NoUser),
    }
}

/// A user of `/etc/passwd`, read by hand because asking the C library takes unsafe code.
fn look_up(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        (found && uid != 0).then(|| User { name: name.to_owned(), uid, gid })
    })
}

/// Makes the cluster's directory, mode 0700 and owned by `owner`, in the system's directory for temporary files or,
/// where that does not do (a private TMPDIR, a long path), in /tmp.
pub(super) fn make_directory(owner: Option<&User>) -> Result<TempDir, LocalPostgresError> {
    let mut tried = Vec::new();
    for parent in [std::env::temp_dir(), PathBuf::from("/tmp")] {
        match make_directory_in(&parent, owner) {
            Ok(dir) => return Ok(dir),
            Err(problem) => tried.push(format!("{}: {problem}", parent.display())),
        }
    }
    tried.dedup();
    let user = owner.map_or("this user".to_owned(), |owner| format!("user `{}`", owner.name));
    Err(LocalPostgresError::NoDirectory { tried: tried.join("; "), user })
}

/// Makes it in `parent`, or says what is wrong with that.
fn make_directory_in(parent: &Path, owner: Option<&User>) -> Result<TempDir, String> {
    let parent = fs::canonicalize(parent).map_err(|error| error.to_string())?;
    let socket_bytes = parent.as_os_str().len() + 1 + PREFIX.len() + RANDOM_CHARS + 1 + SOCKET_NAME.len();
    if socket_bytes > MAX_SOCKET_PATH_BYTES {
        return Err(format!(
            "a socket's path would have {socket_bytes} bytes there, and {MAX_SOCKET_PATH_BYTES} is the most"
        ));
    }
    if let Some(owner) = owner {
        check_access(&parent, owner)?;
    }
    let dir = tempfile::Builder::new()
        .prefix(PREFIX)
        .rand_bytes(RANDOM_CHARS)
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(&parent)
        .map_err(|error| error.to_string())?;
    if let Some(owner) = owner {
        chown(dir.path(), Some(owner.uid), Some(owner.gid)).map_err(|error| error.to_string())?;
    }
    Ok(dir)
}

/// Whether `owner`, who is in no group but its own, can get to `parent` and remove a directory of its own there.
fn check_access(parent: &Path, owner: &User) -> Result<(), String> {
    for dir in parent.ancestors() {
        let metadata = fs::metadata(dir).map_err(|error| error.to_string())?;
        let class = if metadata.uid() == owner.uid {
            6
        } else if metadata.gid() == owner.gid {
            3
        } else {
            0
        };
        let needed = if dir == parent { 0o3 } else { 0o1 }; // write and pass; pass
        if (metadata.mode() >> class) & needed != needed {
            return Err(format!("{} is closed to user `{}`", dir.display(), owner.name));
        }
    }
    Ok(())
}

/// Writes a file that `owner` can read.
pub(super) fn write_file(path: &Path, text: &str, owner: Option<&User>) -> Result<(), LocalPostgresError> {
    let give = |()| owner.map_or(Ok(()), |owner| chown(path, Some(owner.uid), Some(owner.gid)));
    fs::write(path, text)
        .and_then(give)
        .map_err(|source| LocalPostgresError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody() -> User {
        User { name: "nobody".to_owned(), uid: 65_534, gid: 65_534 }
    }

    #[test]
    fn users_are_read_from_passwd_and_root_is_never_one() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\n\nbroken\npostgres:x:0:0::/:\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
        assert_eq!(look_up(passwd, "nobody"), Some(nobody()));
        assert_eq!(look_up(passwd, "postgres"), None, "a second name of root");
        assert_eq!(look_up(passwd, "broken"), None);
    }

    #[test]
    fn a_parent_that_the_other_user_cannot_pass_is_refused() {
        let closed = tempfile::tempdir().unwrap();
        fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let inside = closed.path().join("open");
        fs::create_dir(&inside).unwrap();
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o1777)).unwrap();
        let problem = check_access(&inside, &nobody()).expect_err("its parent is closed");
        assert!(problem.contains("is closed to user `nobody`"), "{problem}");
    }

    #[test]
    fn a_parent_too_long_for_a_socket_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("x".repeat(100));
        fs::create_dir(&long).unwrap();
        let problem = make_directory_in(&long, None).expect_err("107 bytes are the most");
        assert!(problem.contains("is the most"), "{problem}");
    }
}
