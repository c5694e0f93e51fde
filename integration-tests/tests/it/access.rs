//! Services with TLS and clients of their own, as the operator's tool meets them: it gets in, or says what is wrong, and a
//! client learns nothing of another one's broadcasts.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use bongsu_cli::stack::{Options, Process, Stack};
use bongsu_store::testing::fresh_database;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

use crate::processes::{BONGSU, sender};
use crate::world::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tool_says_what_is_wrong_with_a_connection() {
    let guarded = Guarded::start(false).await;
    let intake = format!("https://localhost:{}", guarded.stack.intake.address().port());
    let list = |intake: &str, more: &[&str]| {
        guarded.bongsu(&[&["--intake", intake, "broadcasts", "list"], more].concat())
    };
    let (ca, token) = (guarded.path("ca.pem"), guarded.path("one.token"));
    let with_all = ["--ca", &ca, "--token-file", &token];
    let listed = list(&intake, &with_all);
    assert!(listed.status.success(), "{}", stderr(&listed));

    let by_address = format!("https://{}", guarded.stack.intake.address());
    let plain = guarded.stack.intake.url();
    for (address, more, code, part) in [
        (&intake, &with_all[2..], 5, "give that CA with --ca"),
        (&by_address, &with_all, 5, "its certificate is for another name"),
        (&intake, &with_all[..2], 1, "this call needs a token"),
        (&plain, &with_all[2..], 5, "no connection to"),
    ] {
        let refused = list(address, more);
        let (status, told) = (refused.status.code(), stderr(&refused));
        let broken = part == "no connection to" && told.contains("broke");
        assert!(status == Some(code) && (told.contains(part) || broken), "{part}: {status:?} {told}");
    }

    // A profile says all of it at once.
    let profile =
        format!("[profiles.here]\nintake = \"{intake}\"\nca = \"ca.pem\"\ntoken_file = \"one.token\"\n");
    guarded.write("config.toml", &profile);
    let config = guarded.path("config.toml");
    let by_profile = guarded.bongsu(&["--config", &config, "--profile", "here", "broadcasts", "list"]);
    assert!(by_profile.status.success(), "{}", stderr(&by_profile));
    let other = guarded.bongsu(&["--config", &config, "--profile", "there", "broadcasts", "list"]);
    assert!(stderr(&other).contains("there are: here"), "{}", stderr(&other));

    guarded.certificate(false);
    until("the certificate has expired", async || {
        stderr(&list(&intake, &with_all)).contains("its certificate has expired")
    })
    .await;
    guarded.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_tells_a_client_of_its_own_broadcasts_only() {
    let guarded = Guarded::start(true).await;
    let intake = format!("https://localhost:{}", guarded.stack.intake.address().port());
    let as_client = |client: &str, args: &[&str]| {
        let sender = format!("https://localhost:{}", guarded.sender.as_ref().unwrap().address().port());
        let token = guarded.path(&format!("{client}.token"));
        let common = [
            "--ca",
            &guarded.path("ca.pem"),
            "--intake",
            &intake,
            "--sender",
            &sender,
            "--token-file",
            &token,
            "--json",
        ];
        guarded.bongsu(&[&common, args].concat())
    };
    let sent = as_client("one", &["send", "--to-everyone", "--title", "봉수", "--key", "k"]);
    assert!(sent.status.success(), "{}", stderr(&sent));
    let sent: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
    let text = sent.to_string();
    let id = text.split("\"id\":\"").nth(1).or_else(|| text.split("\"broadcast_id\":\"").nth(1)).unwrap();
    let id = id.split('"').next().unwrap().to_owned();
    let unknown = (id.parse::<i64>().unwrap() + 1_000_000).to_string();

    for args in [
        &["status"][..],
        &["status", "--watch"],
        &["deliveries"],
        &["dead-letters", "list", "--broadcast"],
        &["dead-letters", "replay", "--key", "again"],
    ] {
        let told = [&id, &unknown].map(|id| {
            let refused = as_client("two", &[args, &[id.as_str()]].concat());
            assert_eq!(refused.status.code(), Some(3), "{args:?}: {}", stderr(&refused));
            stderr(&refused).replace(id.as_str(), "ID")
        });
        assert_eq!(told[0], told[1], "{args:?} tells another client's broadcast from one that is not there");
        let own = as_client("one", &[args, &[id.as_str()]].concat());
        assert!(own.status.success(), "{args:?}: {}", stderr(&own));
    }
    let everybodys = as_client("one", &["dead-letters", "list"]);
    assert_eq!(everybodys.status.code(), Some(4), "{}", stderr(&everybodys));
    assert!(stderr(&everybodys).contains("give one of yours"), "{}", stderr(&everybodys));
    let providers = as_client("one", &["providers", "list"]);
    assert!(stderr(&providers).contains("one of the roles read, operate"), "{}", stderr(&providers));
    guarded.stop().await;
}

/// Both services with a certificate for localhost and two clients that submit, `one` and `two`.
struct Guarded {
    stack: Stack,
    sender: Option<Process>,
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Guarded {
    async fn start(with_sender: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::default();
        ca.distinguished_name.push(DnType::CommonName, "Bongsu tests");
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        std::fs::write(directory.path().join("ca.pem"), ca.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(ca, key);
        write_certificate(&directory, &issuer, true);
        let clients = ["one", "two"].map(|client| {
            let file = directory.path().join(format!("{client}.token"));
            let made = Command::new(BONGSU).args(["token", "new"]).arg(file).output().unwrap();
            assert!(made.status.success(), "{}", stderr(&made));
            format!("[clients.{client}]\n{}roles = [\"submit\"]\n", String::from_utf8(made.stdout).unwrap())
        });
        std::fs::write(directory.path().join("access.toml"), clients.concat()).unwrap();
        let told = [("--tls-cert", "cert.pem"), ("--tls-key", "key.pem"), ("--access-file", "access.toml")]
            .map(|(setting, file)| [setting.to_owned(), directory.path().join(file).display().to_string()])
            .concat();
        let mut options = Options::new().unwrap();
        options.executable = BONGSU.into();
        options.database_url = Some(fresh_database().await);
        options.log_filter = "off".into();
        options.intake_args.clone_from(&told);
        let stack = Stack::start(options).await.unwrap();
        let told: Vec<_> = told.iter().map(String::as_str).collect();
        let sender = if with_sender { Some(stack.spawn_sender(sender(&told)).await.unwrap()) } else { None };
        Self { stack, sender, directory, issuer }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Replaces the services' certificate.
    fn certificate(&self, current: bool) {
        write_certificate(&self.directory, &self.issuer, current);
    }

    fn bongsu(&self, args: &[&str]) -> Output {
        Command::new(BONGSU).args(args).current_dir(self.directory.path()).output().unwrap()
    }

    async fn stop(self) {
        let senders = self.sender.into_iter().collect();
        tokio::time::timeout(Duration::from_secs(60), self.stack.stop(senders)).await.expect("it ends");
    }
}

fn write_certificate(directory: &TempDir, issuer: &Issuer<'static, KeyPair>, current: bool) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    if !current {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    }
    let file = |name: &str| -> PathBuf { directory.path().join(name) };
    std::fs::write(file("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(file("cert.pem"), params.signed_by(&key, issuer).unwrap().pem()).unwrap();
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
