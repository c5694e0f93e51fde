//! Profiles: addresses and proof of who we are under a name, so that nobody has to give them with each command.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, de::Error as _};
use std::collections::BTreeMap;

use crate::client::Address;
use crate::error::Failure;

/// One of them. Paths are relative to the file that it is in.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    #[serde(deserialize_with = "address")]
    pub intake: Option<Address>,
    #[serde(deserialize_with = "address")]
    pub sender: Option<Address>,
    pub token_file: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub client_cert: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

fn address<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Address>, D::Error> {
    String::deserialize(value)?.parse().map(Some).map_err(D::Error::custom)
}

/// The profile of this name, from `file` or where it is by default.
pub fn read(file: Option<&Path>, name: &str) -> Result<Profile, Failure> {
    let Some(file) = file.map(Path::to_owned).or_else(default_file) else {
        return Err(refused(
            "there is no home directory to look for profiles in: give BONGSU_CONFIG".to_owned(),
        ));
    };
    let text = std::fs::read_to_string(&file)
        .map_err(|error| refused(format!("{} with the profiles cannot be read: {error}", file.display())))?;
    let parsed: File =
        toml::from_str(&text).map_err(|error| refused(format!("{}: {error}", file.display())))?;
    let names = parsed.profiles.keys().cloned().collect::<Vec<_>>().join(", ");
    let Some(mut profile) = { parsed.profiles }.remove(name) else {
        let there_are =
            if names.is_empty() { "there are none".to_owned() } else { format!("there are: {names}") };
        return Err(refused(format!("{} has no profile {name:?}; {there_are}", file.display())));
    };
    let directory = file.parent().unwrap_or(Path::new(""));
    let paths = [&mut profile.token_file, &mut profile.ca, &mut profile.client_cert, &mut profile.client_key];
    for path in paths.into_iter().flatten() {
        *path = directory.join(&*path);
    }
    Ok(profile)
}

fn default_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(directory.join("bongsu").join("config.toml"))
}

fn refused(message: String) -> Failure {
    Failure::Refused { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_addresses_and_files_beside_its_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("config.toml");
        let text = "[profiles.production]\nintake = \"https://push.example:7070\"\ntoken_file = \"production.token\"\n\
                    ca = \"/etc/ca.pem\"\n[profiles.other]\n";
        std::fs::write(&file, text).expect("written");
        let profile = read(Some(&file), "production").expect("a profile");
        assert_eq!(profile.intake.expect("an address").to_string(), "https://push.example:7070");
        assert_eq!(profile.token_file, Some(directory.path().join("production.token")));
        assert_eq!(profile.ca, Some(PathBuf::from("/etc/ca.pem")));
        assert!(profile.sender.is_none());
        let unknown = read(Some(&file), "prod").expect_err("no such profile");
        assert!(unknown.message().contains("there are: other, production"), "{unknown}");
        for wrong in ["[profiles.x]\ntoken = \"secret\"", "[profiles.x]\nintake = \"push.example\""] {
            std::fs::write(&file, wrong).expect("written");
            read(Some(&file), "x").expect_err(wrong);
        }
    }
}
