//! Where the services are, and what proves who we are: from the command line, the environment, or a profile.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::{Certificate, Identity};

use crate::client::{Address, Bearer, Client, Proof};
use crate::error::Failure;
use crate::output::Output;
use crate::profiles::{self, Profile};
use crate::times::parse_timeout;

const DEFAULT_INTAKE: &str = "http://127.0.0.1:7070";
const DEFAULT_SENDER: &str = "http://127.0.0.1:7080";
/// The token itself. Not an argument: a command line can be read by every user of the host.
const TOKEN_VARIABLE: &str = "BONGSU_TOKEN";
/// The longest token that is sent, in bytes: headers have to stay small.
const MOST_TOKEN_BYTES: usize = 4_096;
/// The heading of all of them in the help.
const HEADING: &str = "Global options";

/// Where the services are. What is not given is as in the profile.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub struct Servers {
    /// Where intake-svc is [default: http://127.0.0.1:7070]
    #[arg(long, global = true, env = "BONGSU_INTAKE", value_name = "URL", help_heading = HEADING)]
    pub intake: Option<Address>,

    /// Where sender-svc is [default: http://127.0.0.1:7080]
    #[arg(long, global = true, env = "BONGSU_SENDER", value_name = "URL", help_heading = HEADING)]
    pub sender: Option<Address>,

    /// Addresses, token and certificates under a name, from ~/.config/bongsu/config.toml or the file that BONGSU_CONFIG names
    #[arg(long, global = true, env = "BONGSU_PROFILE", value_name = "NAME", help_heading = HEADING)]
    pub profile: Option<String>,

    /// The file that profiles are in
    #[arg(long, global = true, env = "BONGSU_CONFIG", value_name = "FILE", hide = true)]
    pub config: Option<PathBuf>,

    /// A file with the token that says who we are; BONGSU_TOKEN has the token itself
    #[arg(long, global = true, env = "BONGSU_TOKEN_FILE", value_name = "FILE", help_heading = HEADING)]
    pub token_file: Option<PathBuf>,

    /// The CA of the services' certificates, in PEM [default: those that this host trusts]
    #[arg(long, global = true, env = "BONGSU_CA", value_name = "FILE", help_heading = HEADING)]
    pub ca: Option<PathBuf>,

    /// Our certificate, in PEM, where the services ask for one
    #[arg(long, global = true, env = "BONGSU_CLIENT_CERT", value_name = "FILE", help_heading = HEADING)]
    pub client_cert: Option<PathBuf>,

    /// The key of --client-cert, in PEM
    #[arg(long, global = true, env = "BONGSU_CLIENT_KEY", value_name = "FILE", help_heading = HEADING)]
    pub client_key: Option<PathBuf>,

    /// How long to wait for a connection, and for the answer to a call; streams may last longer
    #[arg(long, global = true, value_name = "TIME", default_value = "10s", value_parser = parse_timeout,
          help_heading = HEADING)]
    pub timeout: Duration,

    /// How to say what is not an error: that of the whole run.
    #[arg(skip = Output { json: false })]
    pub output: Output,
}

impl Servers {
    pub async fn intake(&self) -> Result<Client, Failure> {
        let profile = self.profile()?;
        let address = address(self.intake.as_ref(), profile.intake.as_ref(), DEFAULT_INTAKE)?;
        self.connect(&address, &profile, "start intake-svc, or give --intake / BONGSU_INTAKE").await
    }

    pub async fn sender(&self) -> Result<Client, Failure> {
        let profile = self.profile()?;
        let address = address(self.sender.as_ref(), profile.sender.as_ref(), DEFAULT_SENDER)?;
        self.connect(&address, &profile, "start sender-svc, or give --sender / BONGSU_SENDER").await
    }

    /// The CA of the services' certificates, where one was given.
    pub fn ca_pem(&self) -> Result<Option<Vec<u8>>, Failure> {
        let ca = self.ca.clone().or(self.profile()?.ca);
        ca.map(|path| read(&path, "--ca")).transpose()
    }

    async fn connect(&self, address: &Address, profile: &Profile, advice: &str) -> Result<Client, Failure> {
        let proof = self.proof(profile)?;
        Client::connect_with(address, &proof, self.timeout, advice).await
    }

    /// The profile that was named; an empty one, where none was.
    fn profile(&self) -> Result<Profile, Failure> {
        match &self.profile {
            Some(name) => Ok(profiles::read(self.config.as_deref(), name)?),
            None => Ok(Profile::default()),
        }
    }

    fn proof(&self, profile: &Profile) -> Result<Proof, Failure> {
        let given = |here: &Option<PathBuf>, there: &Option<PathBuf>| here.clone().or_else(|| there.clone());
        let ca = given(&self.ca, &profile.ca).map(|path| read(&path, "--ca")).transpose()?;
        let cert = given(&self.client_cert, &profile.client_cert);
        let key = given(&self.client_key, &profile.client_key);
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => {
                self.warn_if_open(&key);
                Some(Identity::from_pem(read(&cert, "--client-cert")?, read(&key, "--client-key")?))
            }
            (None, None) => None,
            _ => {
                let message =
                    "a client certificate and its key belong together: give --client-cert and --client-key";
                return Err(Failure::Refused { message: message.to_owned() });
            }
        };
        let bearer = self.bearer(profile)?;
        Ok(Proof { ca: ca.map(Certificate::from_pem), identity, bearer })
    }

    /// The token of --token-file, else that of BONGSU_TOKEN, else that of the profile's file.
    fn bearer(&self, profile: &Profile) -> Result<Bearer, Failure> {
        let in_environment = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        let file = match (&self.token_file, &in_environment) {
            (Some(file), _) => Some(file),
            (None, Some(_)) => None,
            (None, None) => profile.token_file.as_ref(),
        };
        let (token, place) = match (file, in_environment) {
            (Some(path), _) => {
                self.warn_if_open(path);
                let bytes = read(path, "--token-file")?;
                (String::from_utf8(bytes).unwrap_or_default(), path.display().to_string())
            }
            (None, Some(token)) => (token, TOKEN_VARIABLE.to_owned()),
            (None, None) => return Ok(Bearer::default()),
        };
        let token = token.trim();
        let good = !token.is_empty()
            && token.len() <= MOST_TOKEN_BYTES
            && token.bytes().all(|b| b.is_ascii_graphic());
        good.then(|| Bearer::new(token)).flatten().ok_or_else(|| Failure::Refused {
            message: format!("{place} has no token: it should be one line, as `bongsu token new` writes it"),
        })
    }

    /// A secret that others on this host can read is theirs, too.
    fn warn_if_open(&self, path: &Path) {
        let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode());
        if mode & 0o077 != 0 {
            let path = path.display();
            self.output.note(&format!("warning: other users can read {path}: chmod 600 {path}"));
        }
    }
}

fn address(given: Option<&Address>, profile: Option<&Address>, default: &str) -> Result<Address, Failure> {
    match given.or(profile) {
        Some(address) => Ok(address.clone()),
        None => Ok(default.parse().map_err(anyhow::Error::msg)?),
    }
}

fn read(path: &Path, setting: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::Refused {
        message: format!("{} ({setting}) cannot be read: {error}", path.display()),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        servers: Servers,
    }

    fn servers(args: &[&str]) -> Servers {
        Line::parse_from(std::iter::once("bongsu").chain(args.iter().copied())).servers
    }

    #[tokio::test]
    async fn an_address_where_nothing_listens_is_reported_with_what_to_do() {
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            free.local_addr().expect("its address").port()
        };
        let failure = servers(&["--intake", &format!("http://127.0.0.1:{port}")]).intake().await;
        let failure = failure.expect_err("nothing listens there");
        let expected = format!(
            "nothing listens at http://127.0.0.1:{port}: start intake-svc, or give --intake / BONGSU_INTAKE"
        );
        assert_eq!(failure.message(), expected);
        assert!(failure.is_unavailable());
    }

    #[test]
    fn what_proves_who_we_are_is_refused_by_name_and_never_shown() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        let path = file.display().to_string();
        for content in ["", "two words", "소식"] {
            std::fs::write(&file, content).expect("written");
            let failure = servers(&["--token-file", &path]).bearer(&Profile::default()).expect_err(content);
            let told = failure.message();
            assert!(told.contains(&path) && (content.is_empty() || !told.contains(content)), "{told}");
        }
        std::fs::write(&file, "good-token\n").expect("written");
        let proof = servers(&["--token-file", &path]).proof(&Profile::default()).expect("a token");
        assert!(!format!("{proof:?}").contains("good-token"));
        let half = servers(&["--client-cert", &path]).proof(&Profile::default()).expect_err("no key");
        assert!(half.message().contains("--client-key"), "{half}");
    }
}
