//! Tickets: what a page puts into an address where it cannot send a header. Valid for seconds, since addresses get into logs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

use super::User;
use super::refused::Refused;
use super::tokens::MAX_USER_BYTES;

/// How long after its making a ticket is taken.
pub(super) const TICKET_LIFE: Duration = Duration::from_secs(30);
/// What the database's key is used for here: nothing else that is signed with it is a ticket.
const PURPOSE: &[u8] = b"bongsu live ticket 1";
const SIGNATURE_BYTES: usize = 32;
const SECONDS_BYTES: usize = 8;
/// A session without an end.
const NEVER: u64 = u64::MAX;
const MAX_TICKET_BYTES: usize = (SIGNATURE_BYTES + 2 * SECONDS_BYTES + MAX_USER_BYTES).div_ceil(3) * 4;

/// Makes and takes tickets. In base64url: the signature, until when it is taken, when the session ends, the user.
pub(super) struct Tickets(hmac::Key);

impl Tickets {
    /// `key` is the database's, the same for all senders.
    pub fn new(key: &[u8]) -> Self {
        let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), PURPOSE);
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()))
    }

    /// A ticket for this user, whose stream ends when their token does.
    pub fn make(&self, user: &User, now: SystemTime) -> String {
        let session_end = user.expires_at.map_or(NEVER, seconds);
        let taken_until = seconds(now + TICKET_LIFE).min(session_end);
        let said = [&taken_until.to_be_bytes()[..], &session_end.to_be_bytes(), user.id.as_bytes()].concat();
        let signature = hmac::sign(&self.0, &said);
        URL_SAFE_NO_PAD.encode([signature.as_ref(), &said].concat())
    }

    /// The user that it was made for.
    pub fn take(&self, ticket: &str, now: SystemTime) -> Result<User, Refused> {
        const UNKNOWN: Refused = Refused::Invalid("it is no ticket of this system");
        if ticket.len() > MAX_TICKET_BYTES {
            return Err(UNKNOWN);
        }
        let bytes = URL_SAFE_NO_PAD.decode(ticket).map_err(|_| UNKNOWN)?;
        let (signature, said) = bytes.split_at_checked(SIGNATURE_BYTES).ok_or(UNKNOWN)?;
        // In constant time.
        hmac::verify(&self.0, said, signature).map_err(|_| UNKNOWN)?;
        let (taken_until, rest) = said.split_first_chunk::<SECONDS_BYTES>().ok_or(UNKNOWN)?;
        let (session_end, id) = rest.split_first_chunk::<SECONDS_BYTES>().ok_or(UNKNOWN)?;
        if seconds(now) >= u64::from_be_bytes(*taken_until) {
            return Err(Refused::TicketExpired);
        }
        let id = std::str::from_utf8(id).map_err(|_| UNKNOWN)?.to_owned();
        let expires_at = match u64::from_be_bytes(*session_end) {
            NEVER => None,
            end => UNIX_EPOCH.checked_add(Duration::from_secs(end)),
        };
        Ok(User { id, expires_at })
    }
}

/// Since 1970; a clock before that is one that was never set.
fn seconds(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn user(id: &str, ends_in_s: u64, now: SystemTime) -> User {
        User { id: id.to_owned(), expires_at: Some(now + Duration::from_secs(ends_in_s)) }
    }

    fn whole_now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_796_000_000)
    }

    #[test]
    fn a_ticket_is_its_users_for_half_a_minute_and_its_session_ends_with_the_token() {
        let (tickets, now) = (Tickets::new(&KEY), whole_now());
        let anna = user("anna", 3_600, now);
        let ticket = tickets.make(&anna, now);
        for after in [0, 29] {
            assert_eq!(tickets.take(&ticket, now + Duration::from_secs(after)), Ok(anna.clone()));
        }
        assert_eq!(tickets.take(&ticket, now + TICKET_LIFE), Err(Refused::TicketExpired));
        let short = tickets.make(&user("anna", 5, now), now);
        assert_eq!(tickets.take(&short, now + Duration::from_secs(5)), Err(Refused::TicketExpired));
        let endless = User { id: "anna".into(), expires_at: None };
        assert_eq!(tickets.take(&tickets.make(&endless, now), now), Ok(endless));
    }

    #[test]
    fn no_byte_of_a_ticket_can_be_changed_and_no_other_key_makes_one() {
        let (tickets, now) = (Tickets::new(&KEY), whole_now());
        let ticket = tickets.make(&user("anna", 3_600, now), now);
        let bytes = URL_SAFE_NO_PAD.decode(&ticket).expect("base64");
        for place in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[place] ^= 1;
            let forged = tickets.take(&URL_SAFE_NO_PAD.encode(&forged), now);
            assert!(matches!(forged, Err(Refused::Invalid(_))), "byte {place} counts");
        }
        for length in 0..ticket.len() {
            assert!(tickets.take(&ticket[..length], now).is_err(), "cut to {length}");
        }
        assert!(tickets.take(&format!("{ticket}AAAA"), now).is_err(), "longer");
        assert!(tickets.take(&"A".repeat(1 << 20), now).is_err(), "huge");
        let other = Tickets::new(&[8; 32]);
        assert!(other.take(&ticket, now).is_err(), "another database's");
        // What is signed with the key itself is for some other purpose.
        let said = &bytes[SIGNATURE_BYTES..];
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &KEY), said);
        let forged = URL_SAFE_NO_PAD.encode([signature.as_ref(), said].concat());
        assert!(tickets.take(&forged, now).is_err(), "of another purpose");
    }

    #[test]
    fn the_longest_user_fits_into_a_ticket() {
        let (tickets, now) = (Tickets::new(&KEY), whole_now());
        let longest = user(&"u".repeat(MAX_USER_BYTES), 3_600, now);
        assert_eq!(tickets.take(&tickets.make(&longest, now), now), Ok(longest));
    }
}
