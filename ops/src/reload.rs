//! Files that are read again when they change, so that keys, certificates and clients are replaced without a restart.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// No such file is longer. Whatever is was named by mistake.
const MOST_BYTES: u64 = 1 << 20;

/// Makes what is used of the files' contents, in the order of the files, or says what is wrong without repeating it.
pub type Parse<T> = fn(&[Vec<u8>]) -> anyhow::Result<T>;

/// What some files come to, as they are now. They are one: a change of several is taken up once all of them fit.
pub struct Reloaded<T> {
    /// For messages: "the TLS certificate".
    what: &'static str,
    files: Vec<PathBuf>,
    parse: Parse<T>,
    now: Mutex<Now<T>>,
}

struct Now<T> {
    contents: Vec<Vec<u8>>,
    parsed: Arc<T>,
    /// What was wrong when we looked last: told once, not at every look.
    refused: Option<String>,
}

// Nothing of what they hold.
impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.what, named(&self.files))
    }
}

/// Reads and parses once.
///
/// # Errors
///
/// When a file cannot be read, or they are not what they should be.
pub fn read<T>(files: &[PathBuf], parse: Parse<T>) -> anyhow::Result<T> {
    parse(&contents(files)?).with_context(|| named(files))
}

impl<T: Send + Sync + 'static> Reloaded<T> {
    /// Reads them, and goes on looking whether they change for as long as what is returned is kept. Must be called within
    /// a runtime.
    ///
    /// # Errors
    ///
    /// Those of [`read`].
    pub fn load(what: &'static str, files: Vec<PathBuf>, parse: Parse<T>) -> anyhow::Result<Arc<Self>> {
        let contents = contents(&files)?;
        let parsed = Arc::new(parse(&contents).with_context(|| named(&files))?);
        let now = Mutex::new(Now { contents, parsed, refused: None });
        let reloaded = Arc::new(Self { what, files, parse, now });
        let watched = Arc::downgrade(&reloaded);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let Some(reloaded) = watched.upgrade() else { return };
                // A file system may take its time.
                let _ = tokio::task::spawn_blocking(move || reloaded.look()).await;
            }
        });
        Ok(reloaded)
    }

    /// What they are now.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.lock().parsed)
    }

    /// Takes up what has changed; what is wrong is logged, and what was there before stays in use.
    pub fn look(&self) {
        // Read and parsed outside the lock, for which calls wait.
        let changed = contents(&self.files).and_then(|contents| {
            if self.lock().contents == contents {
                return Ok(None);
            }
            let parsed = (self.parse)(&contents).with_context(|| named(&self.files))?;
            Ok(Some((contents, Arc::new(parsed))))
        });
        let mut now = self.lock();
        match changed {
            Ok(None) => now.refused = None,
            Ok(Some((contents, parsed))) => {
                *now = Now { contents, parsed, refused: None };
                tracing::info!("took up {} as changed in {}", self.what, named(&self.files));
            }
            Err(error) => {
                let problem = format!("{error:#}");
                if now.refused.as_ref() != Some(&problem) {
                    tracing::error!("{} stays as it was: {problem}", self.what);
                }
                now.refused = Some(problem);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Now<T>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn contents(files: &[PathBuf]) -> anyhow::Result<Vec<Vec<u8>>> {
    files
        .iter()
        .map(|path| content(path).with_context(|| format!("{} cannot be read", path.display())))
        .collect()
}

fn content(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = std::fs::metadata(path)?.len();
    if bytes > MOST_BYTES {
        bail!("it has {bytes} bytes, and {MOST_BYTES} are the most");
    }
    Ok(std::fs::read(path)?)
}

fn named(files: &[PathBuf]) -> String {
    files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two numbers, the second the larger one: files that have to fit each other.
    fn span(contents: &[Vec<u8>]) -> anyhow::Result<(u32, u32)> {
        let number = |bytes: &Vec<u8>| -> anyhow::Result<u32> {
            std::str::from_utf8(bytes)?.trim().parse().context("is no number")
        };
        let (least, most) = (number(&contents[0])?, number(&contents[1])?);
        anyhow::ensure!(least < most, "the second is not larger");
        Ok((least, most))
    }

    #[tokio::test]
    async fn files_are_taken_up_together_and_what_does_not_fit_leaves_what_was_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = vec![directory.path().join("least"), directory.path().join("most")];
        let write = |least: &str, most: &str| {
            std::fs::write(&files[0], least).expect("written");
            std::fs::write(&files[1], most).expect("written");
        };
        write("1", "2");
        let numbers = Reloaded::load("the span", files.clone(), span).expect("read");
        for (least, most, expected) in [
            ("1", "2", (1, 2)),
            ("3", "2", (1, 2)),
            ("3", "4", (3, 4)),
            ("", "5", (3, 4)),
            ("4", "5", (4, 5)),
        ] {
            write(least, most);
            numbers.look();
            assert_eq!(*numbers.get(), expected, "{least} {most}");
        }
        std::fs::remove_file(&files[0]).expect("removed");
        numbers.look();
        assert_eq!(*numbers.get(), (4, 5), "a file that is gone changes nothing");
    }

    #[tokio::test]
    async fn a_change_is_found_without_being_told_of() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = vec![directory.path().join("least"), directory.path().join("most")];
        std::fs::write(&files[0], "1").expect("written");
        std::fs::write(&files[1], "2").expect("written");
        let numbers = Reloaded::load("the span", files.clone(), span).expect("read");
        std::fs::write(&files[1], "7").expect("written");
        let found = async {
            while *numbers.get() != (1, 7) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LOOK_EVERY * 20, found).await.expect("found");
    }

    #[test]
    fn what_is_wrong_names_the_file_and_shows_nothing_of_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        std::fs::write(&path, "hunter2").expect("written");
        let error = format!("{:#}", read(&[path.clone(), path], span).expect_err("no number"));
        assert!(error.contains("secret") && !error.contains("hunter2"), "{error}");
        let missing = format!("{:#}", read(&[directory.path().join("none")], span).expect_err("missing"));
        assert!(missing.contains("none cannot be read"), "{missing}");
    }
}
