//! Where a request says who calls.

use std::borrow::Cow;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};
use url::form_urlencoded;

use super::refused::Refused;

/// RFC 6750, section 2.1; the scheme's case does not matter.
const BEARER: &str = "bearer ";
/// The parameter of an address that holds a ticket.
pub(super) const TICKET: &str = "ticket";

/// Names of cookies are tokens of HTTP; this many bytes of one are plenty.
pub const MAX_COOKIE_NAME_BYTES: usize = 64;

/// What a request has to say who calls.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credential<'a> {
    /// A token that was put into the header for this request.
    Header(&'a str),
    Ticket(Cow<'a, str>),
    /// A token that the browser sends by itself, whichever page asks.
    Cookie(&'a str),
}

/// The header wins, then the ticket: both were given for this request, a cookie lies about.
pub(super) fn find<'a>(
    headers: &'a HeaderMap,
    query: Option<&'a str>,
    cookie: Option<&str>,
) -> Result<Credential<'a>, Refused> {
    if headers.contains_key(AUTHORIZATION) {
        return bearer(headers).map(Credential::Header);
    }
    if let Some(ticket) = ticket(query.unwrap_or_default())? {
        return Ok(Credential::Ticket(ticket));
    }
    let token = cookie.map(|name| by_cookie(headers, name)).transpose()?.flatten();
    token.map(Credential::Cookie).ok_or(Refused::Missing)
}

fn bearer(headers: &HeaderMap) -> Result<&str, Refused> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        // With two it could be argued which one counts.
        return Err(Refused::Invalid("there are several Authorization headers"));
    };
    let text = value.to_str().ok().and_then(|text| text.split_at_checked(BEARER.len()));
    let token = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(BEARER)).map(|(_, token)| token.trim());
    token.ok_or(Refused::Invalid("the header is not `Authorization: Bearer TOKEN`"))
}

fn ticket(query: &str) -> Result<Option<Cow<'_, str>>, Refused> {
    let mut tickets =
        form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == TICKET).map(|(_, value)| value);
    let first = tickets.next();
    if tickets.next().is_some() {
        return Err(Refused::Invalid("there are several tickets"));
    }
    Ok(first)
}

/// HTTP/2 may send each cookie in a header of its own.
fn by_cookie<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refused> {
    let lists = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut values = lists
        .flat_map(|list| list.split(';'))
        .filter_map(|pair| pair.split_once('='))
        .filter(|(given, _)| given.trim() == name)
        .map(|(_, value)| unquoted(value.trim()));
    let first = values.next();
    // A page of a neighbouring host can add one of the same name.
    if values.any(|other| Some(other) != first) {
        return Err(Refused::Invalid("there are several cookies of its name"));
    }
    Ok(first)
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// The address without its ticket: nobody further in has a use for it, and it would get into logs.
pub(super) fn without_ticket(query: &str) -> String {
    let is_ticket =
        |pair: &&str| form_urlencoded::parse(pair.as_bytes()).next().is_some_and(|(name, _)| name == TICKET);
    query.split('&').filter(|pair| !is_ticket(pair)).collect::<Vec<_>>().join("&")
}

/// A token of RFC 9110, section 5.6.2.
pub fn is_cookie_name(name: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=MAX_COOKIE_NAME_BYTES).contains(&name.len()) && name.bytes().all(fine)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_header_wins_then_the_ticket_then_the_cookie() {
        let all = headers(&[("authorization", "bEARER a"), ("cookie", "session=c")]);
        assert_eq!(find(&all, Some("ticket=b"), Some("session")), Ok(Credential::Header("a")));
        let wrong = headers(&[("authorization", "Basic a"), ("cookie", "session=c")]);
        assert!(matches!(find(&wrong, Some("ticket=b"), Some("session")), Err(Refused::Invalid(_))));
        let cookie = headers(&[("cookie", "session=c")]);
        assert_eq!(find(&cookie, Some("x=1&ticket=b"), Some("session")), Ok(Credential::Ticket("b".into())));
        assert_eq!(find(&cookie, Some("x=1"), Some("session")), Ok(Credential::Cookie("c")));
        assert_eq!(find(&cookie, None, None), Err(Refused::Missing), "no cookie is taken unless it is named");
        assert_eq!(find(&HeaderMap::new(), None, Some("session")), Err(Refused::Missing));
    }

    #[test]
    fn a_cookie_is_found_among_others_and_two_that_differ_are_none() {
        let found = |cookies: &[&'static str]| {
            let pairs: Vec<_> = cookies.iter().map(|value| ("cookie", *value)).collect();
            match find(&headers(&pairs), None, Some("live")) {
                Ok(Credential::Cookie(token)) => Ok(Some(token.to_owned())),
                Ok(other) => panic!("{other:?}"),
                Err(Refused::Missing) => Ok(None),
                Err(refused) => Err(refused.reason()),
            }
        };
        for (cookies, token) in [
            (&["theme=dark; live=a.b.c; lang=ko"][..], Ok(Some("a.b.c".to_owned()))),
            (&["theme=dark", "live=a.b.c"], Ok(Some("a.b.c".to_owned()))),
            (&["live=\"a.b.c\""], Ok(Some("a.b.c".to_owned()))),
            (&["live=a=b"], Ok(Some("a=b".to_owned()))),
            (&["live=a; live=a"], Ok(Some("a".to_owned()))),
            (&["live=a; live=b"], Err("TOKEN_INVALID")),
            (&["live=a", "live=b"], Err("TOKEN_INVALID")),
            (&["Live=a; alive=b; live2=c; live"], Ok(None)),
        ] {
            assert_eq!(found(cookies), token, "{cookies:?}");
        }
    }

    #[test]
    fn two_headers_or_two_tickets_are_none() {
        let two = headers(&[("authorization", "Bearer a"), ("authorization", "Bearer a")]);
        assert!(matches!(find(&two, None, None), Err(Refused::Invalid(_))));
        assert!(matches!(find(&HeaderMap::new(), Some("ticket=a&ticket=a"), None), Err(Refused::Invalid(_))));
    }

    #[test]
    fn a_ticket_is_taken_out_of_the_address_and_nothing_else() {
        for (query, rest) in [
            ("ticket=a", ""),
            ("last_event_id=1-2&ticket=a", "last_event_id=1-2"),
            ("%74icket=a&x=%20&y", "x=%20&y"),
            ("tickets=a", "tickets=a"),
            ("", ""),
        ] {
            assert_eq!(without_ticket(query), rest, "{query}");
        }
    }
}
