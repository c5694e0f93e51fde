//! Every token and ticket that must not let anybody in, and why.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::super::ticket::Tickets;
use super::super::{Refused, User};
use super::signers::{Gate, Signer, TICKET_KEY, base64url, claims, head, now, with};

/// Three keys with names, and one without.
fn gate() -> Gate {
    let keys = [
        Signer::secret(1).jwk(Some("hs")),
        Signer::ed25519(1).jwk(Some("ed")),
        Signer::rsa().jwk(Some("rs")),
        Signer::secret(9).jwk(None),
    ];
    Gate::new(&keys, |_| {})
}

fn why(refused: Result<User, Refused>) -> String {
    match refused {
        Err(Refused::Invalid(why)) => why.to_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_token_of_each_kind_of_key_says_who_the_user_is_and_until_when() {
    let gate = gate();
    for (signer, kid) in [
        (Signer::secret(1), Some("hs")),
        (Signer::ed25519(1), Some("ed")),
        (Signer::rsa(), Some("rs")),
        (Signer::secret(9), None),
    ] {
        let claims = with("exp", 4_102_444_800_i64);
        let user = gate.bearer(&signer.sign(&head(signer.algorithm(), kid), &claims));
        let end = UNIX_EPOCH + Duration::from_secs(4_102_444_800 + 30);
        assert_eq!(user, Ok(User { id: "anna".into(), expires_at: Some(end) }), "{kid:?}");
    }
}

#[tokio::test]
async fn a_token_of_another_key_or_algorithm_lets_nobody_in() {
    let gate = gate();
    let (hs, ed, rs) = (Signer::secret(1), Signer::ed25519(1), Signer::rsa());
    let public = |signer: &Signer| signer.jwk(None);
    let n = public(&rs)["n"].as_str().expect("a modulus").to_owned();
    let x = public(&ed)["x"].as_str().expect("a point").to_owned();
    let raw = |text: &str| base64_decoded(text);
    let pem = include_bytes!("rsa_2048_for_tests.pem");
    let of_secret =
        |secret: &[u8], kid| Signer::Secret(secret.to_vec()).sign(&head("HS256", Some(kid)), &claims());
    for (what, token, told) in [
        ("another secret", Signer::secret(2).token(Some("hs")), "signature"),
        ("another pair of keys", Signer::ed25519(2).token(Some("ed")), "signature"),
        ("the secret of another kid", Signer::secret(9).token(Some("hs")), "signature"),
        ("no kid, and the key of one", hs.token(None), "signature"),
        ("a kid that is not known", hs.token(Some("old")), "not known"),
        ("a kid that is empty", hs.token(Some("")), "not known"),
        ("a kid that is a path", hs.token(Some("../../dev/null")), "not known"),
        ("alg none", unsigned("none", Some("hs")), "alg"),
        ("alg NONE", unsigned("NONE", Some("hs")), "alg"),
        ("alg none, no kid", unsigned("none", None), "alg"),
        ("no signature", unsigned("HS256", Some("hs")), "signature"),
        ("HS256 for an RSA key", hs.sign(&head("HS256", Some("rs")), &claims()), "alg"),
        ("the modulus as a secret", of_secret(&raw(&n), "rs"), "alg"),
        ("the modulus as text as a secret", of_secret(n.as_bytes(), "rs"), "alg"),
        ("the PEM as a secret", of_secret(pem, "rs"), "alg"),
        ("the point as a secret", of_secret(&raw(&x), "ed"), "alg"),
        (
            "alg of the key, signed with the modulus",
            Signer::Secret(raw(&n)).sign(&head("RS256", Some("rs")), &claims()),
            "signature",
        ),
        (
            "alg of the key, signed with the point",
            Signer::Secret(raw(&x)).sign(&head("EdDSA", Some("ed")), &claims()),
            "signature",
        ),
        ("HS512 said of an HS256 key", hs.sign(&head("HS512", Some("hs")), &claims()), "alg"),
        ("PS256 said of an RS256 key", rs.sign(&head("PS256", Some("rs")), &claims()), "alg"),
        ("RS256 for a secret", rs.sign(&head("RS256", Some("hs")), &claims()), "alg"),
        ("alg in small letters", hs.sign(&head("hs256", Some("hs")), &claims()), "alg"),
        ("a key that it brings along", with_own_key(), "not known"),
        (
            "crit",
            hs.sign(&json!({ "alg": "HS256", "kid": "hs", "crit": ["b64"], "b64": true }), &claims()),
            "crit",
        ),
        ("crit of nothing", hs.sign(&json!({ "alg": "HS256", "kid": "hs", "crit": [] }), &claims()), "crit"),
        (
            "a payload that is not encoded",
            hs.sign(&json!({ "alg": "HS256", "kid": "hs", "b64": false }), &claims()),
            "no JSON Web Token",
        ),
        ("no alg", hs.sign(&json!({ "kid": "hs" }), &claims()), "no JSON Web Token"),
        (
            "a kid that is a number",
            hs.sign(&json!({ "alg": "HS256", "kid": 1 }), &claims()),
            "no JSON Web Token",
        ),
        ("the database's key", Signer::Secret(TICKET_KEY.to_vec()).token(None), "signature"),
    ] {
        let why = why(gate.bearer(&token));
        assert!(why.contains(told), "{what}: {why}");
    }
}

#[tokio::test]
async fn a_token_whose_claims_are_wrong_lets_nobody_in() {
    let (gate, hs) = (gate(), Signer::secret(1));
    let signed = |claims: &Value| gate.bearer(&hs.sign(&head("HS256", Some("hs")), claims));
    for (claims, told) in [
        (with("sub", ""), "sub"),
        (with("sub", "u".repeat(257)), "sub"),
        (with("sub", "봉".repeat(86)), "sub"),
        (with("sub", "an\na"), "control"),
        (with("sub", "anna\0"), "control"),
        (with("sub", "anna\u{85}"), "control"),
        (with("sub", 7), "sub"),
        (with("sub", Value::Null), "sub"),
        (json!({ "exp": now() + 3_600 }), "sub"),
        (json!({ "sub": "anna" }), "exp"),
        (with("exp", Value::Null), "exp"),
        (with("exp", (now() + 3_600).to_string()), "exp"),
        (with("exp", -1), "exp"),
        (with("nbf", now() + 90), "nbf"),
        (with("nbf", "tomorrow"), "claim"),
        (with("aud", "another service"), "aud"),
        (with("aud", json!([])), "aud"),
        (json!(["anna"]), "claim"),
    ] {
        let why = why(signed(&claims));
        assert!(why.contains(told), "{claims}: {why}");
    }
    assert_eq!(signed(&with("exp", now() - 31 - 5)), Err(Refused::Expired));
    assert_eq!(signed(&with("exp", 0)), Err(Refused::Expired));
    for fine in [
        with("exp", now() - 10),
        with("nbf", now() + 10),
        with("sub", "u".repeat(256)),
        with("sub", "김철수 <kim@example.com>"),
        with("exp", 4_102_444_800.5),
        with("exp", 1e18),
        with("iss", "anybody"),
    ] {
        assert!(signed(&fine).is_ok(), "{fine}");
    }
}

#[tokio::test]
async fn where_an_issuer_and_an_audience_are_set_a_token_must_name_them() {
    let hs = Signer::secret(1);
    let gate = Gate::new(&[hs.jwk(None)], |config| {
        config.jwt_issuer = Some("https://id.example.com".into());
        config.jwt_audience = Some("bongsu".into());
    });
    let said = |issuer: Value, audience: Value| {
        let mut claims = with("iss", issuer);
        claims["aud"] = audience;
        gate.bearer(&hs.sign(&head("HS256", None), &claims))
    };
    let issuer = || json!("https://id.example.com");
    for audience in [json!("bongsu"), json!(["shop", "bongsu"])] {
        said(issuer(), audience).expect("it names both");
    }
    for (issuer, audience, told) in [
        (issuer(), json!("shop"), "aud"),
        (issuer(), json!(["shop"]), "aud"),
        (issuer(), Value::Null, "aud"),
        (issuer(), json!(7), "aud"),
        (json!("https://id.example.com/"), json!("bongsu"), "iss"),
        (Value::Null, json!("bongsu"), "iss"),
        (json!(7), json!("bongsu"), "iss"),
    ] {
        let why = why(said(issuer.clone(), audience.clone()));
        assert!(why.contains(told), "{issuer} {audience}: {why}");
    }
    let why = why(gate.bearer(&hs.token(None)));
    assert!(why.contains("iss") || why.contains("aud"), "{why}");
}

#[tokio::test]
async fn what_is_cut_long_or_no_token_at_all_lets_nobody_in() {
    let (gate, hs) = (gate(), Signer::secret(1));
    let token = hs.token(Some("hs"));
    for length in 0..token.len() {
        assert!(matches!(gate.bearer(&token[..length]), Err(Refused::Invalid(_))), "cut to {length}");
    }
    let parts: Vec<&str> = token.split('.').collect();
    let [head, claims, signature] = parts[..] else { panic!("three parts") };
    let other = base64url(json!({ "sub": "berta", "exp": now() + 3_600 }).to_string().as_bytes());
    for forged in [
        format!("{head}.{other}.{signature}"),
        format!("{head}.{claims}.{signature}."),
        format!("{head}.{claims}.{signature}.{signature}"),
        format!("{head}..{signature}"),
        format!(".{claims}.{signature}"),
        format!("{head}.{claims}.{signature}="),
        format!("{head}.{claims} .{signature}"),
        "..".into(),
        "[[[[[[[[[[".into(),
        format!("{}.{claims}.{signature}", base64url("[".repeat(5_000).as_bytes())),
    ] {
        assert!(matches!(gate.bearer(&forged), Err(Refused::Invalid(_))), "{forged}");
    }
    for bytes in [8 * 1_024 + 1, 1 << 20] {
        assert_eq!(why(gate.bearer(&"a".repeat(bytes))), "it is too long");
    }
    let padded =
        |bytes: usize| hs.sign(&json!({ "alg": "HS256", "kid": "hs" }), &with("x", "x".repeat(bytes)));
    assert!(gate.bearer(&padded(5_500)).is_ok(), "{} bytes are allowed", padded(5_500).len());
    assert_eq!(why(gate.bearer(&padded(6_200))), "it is too long");
}

#[tokio::test]
async fn a_ticket_is_no_token_and_a_token_no_ticket() {
    let (gate, hs) = (gate(), Signer::secret(1));
    let anna = gate.bearer(&hs.token(Some("hs"))).expect("hers");
    let tickets = Tickets::new(&TICKET_KEY);
    let ticket = tickets.make(&anna, SystemTime::now());
    assert_eq!(gate.ticket(&ticket), Ok(anna.clone()));
    assert!(matches!(gate.bearer(&ticket), Err(Refused::Invalid(_))), "a ticket as a token");
    assert!(matches!(gate.ticket(&hs.token(Some("hs"))), Err(Refused::Invalid(_))), "a token as a ticket");

    let berta = User { id: "berta".into(), expires_at: anna.expires_at };
    let bertas = tickets.make(&berta, SystemTime::now());
    let (of_anna, of_berta) = (base64_decoded(&ticket), base64_decoded(&bertas));
    let mixed = base64url(&[&of_anna[..32], &of_berta[32..]].concat());
    assert!(matches!(gate.ticket(&mixed), Err(Refused::Invalid(_))), "another user's under her signature");
    let old = tickets.make(&anna, SystemTime::now() - Duration::from_secs(31));
    assert_eq!(gate.ticket(&old), Err(Refused::TicketExpired));
    let elsewhere = Tickets::new(&[4; 32]).make(&anna, SystemTime::now());
    assert!(matches!(gate.ticket(&elsewhere), Err(Refused::Invalid(_))), "another database's");
    assert!(matches!(gate.ticket(""), Err(Refused::Invalid(_))), "empty");
}

#[tokio::test]
async fn keys_change_without_a_restart_and_a_broken_file_changes_nothing() {
    let (old, new) = (Signer::secret(1), Signer::ed25519(1));
    let gate = Gate::new(&[old.jwk(Some("old"))], |_| {});
    let taken =
        || (gate.bearer(&old.token(Some("old"))).is_ok(), gate.bearer(&new.token(Some("new"))).is_ok());
    assert_eq!(taken(), (true, false));
    gate.rewrite(&json!({ "keys": [old.jwk(Some("old")), new.jwk(Some("new"))] }).to_string());
    assert_eq!(taken(), (true, true), "both while they change");
    for broken in
        ["", "{", "{\"keys\":[]}", "{\"keys\":[{\"kty\":\"oct\",\"kid\":\"old\",\"k\":\"c2hvcnQ\"}]}"]
    {
        gate.rewrite(broken);
        assert_eq!(taken(), (true, true), "{broken}");
    }
    gate.rewrite(&json!({ "keys": [new.jwk(Some("new"))] }).to_string());
    assert_eq!(taken(), (false, true), "the old one is taken out");
}

fn unsigned(algorithm: &str, kid: Option<&str>) -> String {
    let encoded = |value: &Value| base64url(value.to_string().as_bytes());
    format!("{}.{}.", encoded(&head(algorithm, kid)), encoded(&claims()))
}

/// Signed well, by a key that is in its own head.
fn with_own_key() -> String {
    let own = Signer::ed25519(7);
    let jwk = own.jwk(Some("mine"));
    own.sign(
        &json!({ "alg": "EdDSA", "kid": "mine", "jwk": jwk, "jku": "https://evil.example/jwks" }),
        &claims(),
    )
}

fn base64_decoded(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).expect("base64url")
}
