//! How senders are told to call the simulator in another protocol than the plain webhook's: a providers file, and the
//! credentials that the simulator believes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bongsu_store::ProviderKind;

use super::PROVIDER;

/// A VAPID key of nobody's.
const VAPID_KEY: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";

/// Writes a providers file for the simulator at `address`, and what it names, into `directory`. Returns where it is.
///
/// # Errors
///
/// When the simulator does not tell its keys, or the disk is full.
pub async fn write(kind: ProviderKind, address: SocketAddr, directory: &Path) -> anyhow::Result<PathBuf> {
    let http = reqwest::Client::builder().no_proxy().build().context("building the HTTP client")?;
    let fetch = async |path: &str, name: &str| {
        let answer = http.get(format!("http://{address}{path}")).send().await?.error_for_status()?;
        let file = directory.join(name);
        std::fs::write(&file, answer.bytes().await?)?;
        anyhow::Ok(file)
    };
    let own = match kind {
        ProviderKind::Webhook => bail!("a webhook needs no file"),
        ProviderKind::Fcm => {
            let key = fetch("/fcm/service-account.json", "service-account.json").await?;
            format!(
                "credentials = {{ file = {key:?} }}\n\
                 endpoint = \"https://{address}\"\ntoken_uri = \"https://{address}/token\"\n"
            )
        }
        ProviderKind::Apns => {
            let key = fetch("/apns/key.p8", "key.p8").await?;
            format!(
                "credentials = {{ file = {key:?} }}\nkey_id = \"TESTKEY000\"\nteam_id = \"TESTTEAM00\"\n\
                 topic = \"example.bongsu.app\"\nenvironment = \"production\"\nendpoint = \"https://{address}\"\n"
            )
        }
        ProviderKind::WebPush => {
            let key = directory.join("vapid");
            std::fs::write(&key, VAPID_KEY)?;
            format!(
                "credentials = {{ file = {key:?} }}\nsubject = \"mailto:nobody@example.com\"\n\
                 allow_private_addresses = true\n"
            )
        }
    };
    let ca = fetch("/ca.pem", "ca.pem").await?;
    let file = directory.join("providers.toml");
    let kind = kind.name();
    std::fs::write(&file, format!("[providers.{PROVIDER}]\nkind = \"{kind}\"\nca_file = {ca:?}\n{own}"))?;
    Ok(file)
}
