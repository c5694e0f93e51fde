//! The settings of who may connect and call: read once, checked whole, the same in both services.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::clients::Clients;
use super::layer::AccessLayer;
use super::methods::Method;
use crate::grpc::{Tls, TlsFiles};
use crate::reload::{self, Reloaded};

/// Every environment variable of [`AccessArgs`], for whoever starts services that must not take over its own.
pub const ENVIRONMENT: [&str; 6] = [
    "BONGSU_TLS_CERT",
    "BONGSU_TLS_KEY",
    "BONGSU_TLS_CLIENT_CA",
    "BONGSU_ACCESS_FILE",
    "BONGSU_REFLECTION",
    "BONGSU_INSECURE_LISTEN",
];

/// Who may connect to the gRPC port, and call. Flatten it into the service's own arguments.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
pub struct AccessArgs {
    /// Speak TLS with this certificate: PEM, ours first, then those that lead to its CA. Read again when it changes
    #[arg(long, env = "BONGSU_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The key of --tls-cert, in PEM
    #[arg(long, env = "BONGSU_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Let only those connect that have a certificate of this CA, in PEM
    #[arg(long, env = "BONGSU_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// The clients, their tokens and roles, in TOML: a table [clients.NAME] for each (docs/security.md). Read again when it
    /// changes. Without it, everybody who can connect may do everything
    #[arg(long, env = "BONGSU_ACCESS_FILE", value_name = "FILE")]
    pub access_file: Option<PathBuf>,

    /// Who may ask for the API's description by reflection [default: open on a loopback address, else authenticated]
    #[arg(long, value_enum, env = "BONGSU_REFLECTION", value_name = "POLICY")]
    pub reflection: Option<ReflectionPolicy>,

    /// Listen beyond this host although not everything is set that protects the port: where something else does
    #[arg(long, env = "BONGSU_INSECURE_LISTEN")]
    pub insecure_listen: bool,
}

/// Who may use reflection.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReflectionPolicy {
    /// Everybody who can connect
    Open,
    /// Every client of the access file, whatever its roles; everybody, where there is none
    Authenticated,
    /// Nobody
    Off,
}

impl AccessArgs {
    /// What is wrong, with the setting and what to do; `listen` is where the port will be, `listen_setting` what says so.
    pub fn problems(&self, listen: SocketAddr, listen_setting: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let set = |what: &str| format!("{what} is set");
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => {
                problems.push(format!(
                    "{} without --tls-key (BONGSU_TLS_KEY): give both",
                    set("--tls-cert (BONGSU_TLS_CERT)")
                ));
            }
            (None, Some(_)) => {
                problems.push(format!(
                    "{} without --tls-cert (BONGSU_TLS_CERT): give both",
                    set("--tls-key (BONGSU_TLS_KEY)")
                ));
            }
            (None, None) if self.tls_client_ca.is_some() => problems.push(format!(
                "{} without --tls-cert (BONGSU_TLS_CERT) and --tls-key (BONGSU_TLS_KEY): give all three",
                set("--tls-client-ca (BONGSU_TLS_CLIENT_CA)")
            )),
            _ => {}
        }
        if let Some(Err(error)) = self.tls_files().map(|files| files.check()) {
            problems.push(format!("--tls-cert, --tls-key, --tls-client-ca (BONGSU_TLS_…): {error:#}"));
        }
        if let Some(path) = &self.access_file
            && let Err(error) = reload::read(std::slice::from_ref(path), Clients::parse)
        {
            problems.push(format!("--access-file (BONGSU_ACCESS_FILE): {error:#}"));
        }
        let lacks = self.lacks();
        if !listen.ip().is_loopback() && !lacks.is_empty() && !self.insecure_listen {
            problems.push(format!(
                "{listen_setting} is {listen}, which others can reach, without {}: set that, or a loopback address, or \
                 --insecure-listen (BONGSU_INSECURE_LISTEN) where something else protects the port",
                lacks.join(" and "),
            ));
        }
        problems
    }

    /// What a port needs that others can reach, and this one has not.
    fn lacks(&self) -> Vec<&'static str> {
        let tls = self.tls_cert.is_none().then_some("TLS (--tls-cert, --tls-key)");
        let known = self.access_file.is_some() || self.tls_client_ca.is_some();
        let clients = (!known).then_some("knowing its clients (--access-file, or --tls-client-ca)");
        tls.into_iter().chain(clients).collect()
    }

    fn tls_files(&self) -> Option<TlsFiles> {
        let (cert, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(TlsFiles { cert, key, client_ca: self.tls_client_ca.clone() })
    }

    /// TLS of the port, where it is set. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// When the files have changed since [`AccessArgs::problems`] and are wrong now.
    pub fn tls(&self) -> anyhow::Result<Option<Arc<Tls>>> {
        self.tls_files().map(|files| files.load()).transpose()
    }

    /// The same for a port that browsers connect to, who have no certificates: HTTP/1.1 and HTTP/2. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// Those of [`AccessArgs::tls`].
    pub fn tls_for_browsers(&self) -> anyhow::Result<Option<Arc<Tls>>> {
        let files = self.tls_files().map(|files| TlsFiles { client_ca: None, ..files });
        files.map(|files| files.load_for_browsers()).transpose()
    }

    /// The layer for a service that has these methods and listens there. `default_client` is who calls where there is no
    /// access file. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// When the access file has changed since [`AccessArgs::problems`] and is wrong now.
    pub fn layer(
        &self,
        listen: SocketAddr,
        default_client: &str,
        methods: &'static [Method],
    ) -> anyhow::Result<AccessLayer> {
        let load = |path: &PathBuf| Reloaded::load("who may call", vec![path.clone()], Clients::parse);
        let clients = self.access_file.as_ref().map(load).transpose()?;
        let by_default =
            if listen.ip().is_loopback() { ReflectionPolicy::Open } else { ReflectionPolicy::Authenticated };
        Ok(AccessLayer::new(clients, default_client, methods, self.reflection.unwrap_or(by_default)))
    }

    /// Says in the log who can reach the port.
    pub fn announce(&self, listen: SocketAddr) {
        let lacks = self.lacks().join(" and ");
        if lacks.is_empty() {
            let certificates = self.tls_client_ca.is_some();
            tracing::info!(%listen, client_certificates = certificates, "the gRPC port speaks TLS and knows its clients");
        } else if listen.ip().is_loopback() {
            tracing::info!(%listen, "the gRPC port is without {lacks}: only this host can reach it");
        } else {
            tracing::warn!(
                %listen,
                "INSECURE: the gRPC port is without {lacks}, and others can reach it (--insecure-listen): make sure that \
                 something else protects it"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(listen: &str, change: impl FnOnce(&mut AccessArgs)) -> String {
        let mut args = AccessArgs::default();
        change(&mut args);
        args.problems(listen.parse().expect("an address"), "--listen").join("\n")
    }

    #[test]
    fn nothing_needs_to_be_set_on_loopback_and_everything_beyond() {
        assert_eq!(problems("127.0.0.1:7070", |_| {}), "");
        assert_eq!(problems("[::1]:7070", |_| {}), "");
        let refused = problems("0.0.0.0:7070", |_| {});
        for part in ["--listen is 0.0.0.0:7070", "--tls-cert", "--access-file", "BONGSU_INSECURE_LISTEN"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        assert_eq!(problems("0.0.0.0:7070", |args| args.insecure_listen = true), "");
    }

    #[test]
    fn half_a_pair_is_refused_with_the_other_half_named() {
        let some = || Some(PathBuf::from("/nowhere/x.pem"));
        assert!(problems("127.0.0.1:0", |args| args.tls_cert = some()).contains("without --tls-key"));
        assert!(problems("127.0.0.1:0", |args| args.tls_key = some()).contains("without --tls-cert"));
        assert!(problems("127.0.0.1:0", |args| args.tls_client_ca = some()).contains("give all three"));
        let unread = problems("127.0.0.1:0", |args| (args.tls_cert, args.tls_key) = (some(), some()));
        assert!(unread.contains("/nowhere/x.pem cannot be read"), "{unread}");
        let unread = problems("127.0.0.1:0", |args| args.access_file = some());
        assert!(unread.contains("--access-file") && unread.contains("/nowhere/x.pem"), "{unread}");
    }
}
