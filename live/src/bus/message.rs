//! What processes say to each other, and how it is written: the same in Redis and in Postgres.

use std::collections::BTreeSet;

use bongsu_store::UserNo;

/// Bytes of a message, at most: Postgres takes less than 8,000.
const MESSAGE_BYTES: usize = 7_900;
/// Something may have been left unsaid.
const ANYTHING: &str = "*";
/// What a beat begins with.
const BEAT: &str = "beat ";

/// A message that was heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// These users have something new.
    Users(Vec<UserNo>),
    /// Anybody may have.
    Anything,
    /// A listener tries whether it hears itself.
    Beat(u64),
}

/// What a process has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    User(UserNo),
    Beat(u64),
}

impl Message {
    /// None where it is of a form that we do not write, as a later version may: of no meaning for us.
    pub(super) fn read(text: &str) -> Option<Self> {
        if text == ANYTHING {
            return Some(Self::Anything);
        }
        if let Some(of) = text.strip_prefix(BEAT) {
            return of.parse().ok().map(Self::Beat);
        }
        let users: Result<Vec<_>, _> = text.split(',').map(|number| number.parse().map(UserNo)).collect();
        users.ok().map(Self::Users)
    }
}

/// The messages for these items, each user once; where something is owed, everybody is told instead.
pub(super) fn write(items: impl IntoIterator<Item = Item>, owed: bool) -> Vec<String> {
    let (mut users, mut messages) = (BTreeSet::new(), vec![]);
    for item in items {
        match item {
            Item::User(user) => drop(users.insert(user)),
            Item::Beat(of) => messages.push(format!("{BEAT}{of}")),
        }
    }
    if owed {
        messages.push(ANYTHING.to_owned());
    } else {
        messages.extend(of_users(users));
    }
    messages
}

/// Numbers with commas between them.
fn of_users(users: impl IntoIterator<Item = UserNo>) -> Vec<String> {
    let mut messages: Vec<String> = vec![];
    for UserNo(user) in users {
        let number = user.to_string();
        match messages.last_mut() {
            Some(last) if last.len() + 1 + number.len() <= MESSAGE_BYTES => {
                last.push(',');
                last.push_str(&number);
            }
            _ => messages.push(number),
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_postgres_takes_and_name_each_user_once() {
        let users = || (0..5_000).map(|n| UserNo(1_000_000 + n));
        let messages = write(users().chain(users()).map(Item::User), false);
        assert_eq!(messages.len(), 6);
        assert!(messages.iter().all(|message| message.len() <= MESSAGE_BYTES));
        let heard = messages.iter().flat_map(|message| match Message::read(message) {
            Some(Message::Users(users)) => users,
            other => panic!("{other:?}"),
        });
        assert!(heard.eq(users()));
    }

    #[test]
    fn what_is_owed_goes_to_all_in_place_of_what_was_not_said_and_beats_go_on() {
        let messages = write([Item::User(UserNo(1)), Item::Beat(7)], true);
        let heard: Vec<_> = messages.iter().map(|message| Message::read(message).unwrap()).collect();
        assert_eq!(heard, [Message::Beat(7), Message::Anything]);
    }

    #[test]
    fn what_nobody_of_this_version_writes_means_nothing() {
        for text in ["", "beat", "beat x", "1,,2", "1,x", "?"] {
            assert_eq!(Message::read(text), None, "{text:?}");
        }
    }
}
