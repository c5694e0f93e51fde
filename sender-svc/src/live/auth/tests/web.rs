//! The layer as a browser and as a gRPC client see it.

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode, Uri};
use axum::routing::{get, post};
use axum::{Extension, Router};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::ServiceExt as _;

use super::super::{AuthLayer, User, ticket_router};
use super::signers::{Gate, Signer, head, now, with};

const APP: &str = "https://app.example.com";

/// Tells who was let in, and what is left of the request.
fn app(gate: &Gate) -> Router {
    let who = |Extension(user): Extension<User>, uri: Uri, headers: HeaderMap| async move {
        let left = ["authorization", "cookie"].iter().filter(|name| headers.contains_key(**name)).count();
        format!("{} {uri} {left}", user.id)
    };
    Router::new()
        .route("/v1/live", get(who))
        .route("/v1/live/acknowledge", post(who))
        .route("/bongsu.v1.InboxService/ListInbox", post(who))
        .merge(ticket_router(gate.authenticator.clone()))
        .layer(AuthLayer::new(gate.authenticator.clone()))
}

fn gate() -> Gate {
    Gate::new(&[Signer::secret(1).jwk(None)], |config| {
        config.cookie = Some("session".into());
        config.allow_origins = vec![APP.parse().expect("an origin")];
    })
}

fn token() -> String {
    Signer::secret(1).token(None)
}

async fn ask(gate: &Gate, line: &str, headers: &[(&str, &str)]) -> Response<Body> {
    let (method, uri) = line.split_once(' ').expect("METHOD PATH");
    let request = Request::builder().method(method).uri(uri).header("host", "live.example.com");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    app(gate).oneshot(request.body(Body::empty()).expect("a request")).await.expect("answered")
}

async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Vec<&'a str> {
    response.headers().get_all(name).iter().map(|value| value.to_str().expect("text")).collect()
}

#[tokio::test]
async fn who_is_let_in_is_told_inward_and_what_they_showed_is_not() {
    let (gate, bearer, cookie) = (gate(), format!("Bearer {}", token()), format!("session={}", token()));
    let answer = ask(&gate, "GET /v1/live?a=1", &[("authorization", &bearer), ("cookie", &cookie)]).await;
    assert_eq!(text(answer).await, "anna /v1/live?a=1 0");
    let answer = ask(&gate, "GET /v1/live", &[("cookie", &cookie)]).await;
    assert_eq!(text(answer).await, "anna /v1/live 0");
    let ticket = ticket(&gate, &bearer).await;
    let answer = ask(&gate, &format!("GET /v1/live?ticket={ticket}&last_event_id=1-2"), &[]).await;
    assert_eq!(text(answer).await, "anna /v1/live?last_event_id=1-2 0");
    let answer = ask(&gate, &format!("GET /v1/live?ticket={ticket}"), &[]).await;
    assert_eq!(text(answer).await, "anna /v1/live 0");
}

async fn ticket(gate: &Gate, bearer: &str) -> String {
    let answer = ask(gate, "POST /v1/live/ticket", &[("authorization", bearer)]).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(header(&answer, "cache-control"), ["no-store"]);
    let made: Value = serde_json::from_str(&text(answer).await).expect("JSON");
    assert_eq!(made["expires_in_s"], 30);
    made["ticket"].as_str().expect("a ticket").to_owned()
}

#[tokio::test]
async fn a_ticket_reads_and_neither_writes_nor_makes_another() {
    let gate = gate();
    let ticket = ticket(&gate, &format!("Bearer {}", token())).await;
    for path in ["/v1/live/ticket", "/v1/live/acknowledge", "/bongsu.v1.InboxService/ListInbox"] {
        let answer = ask(&gate, &format!("POST {path}?ticket={ticket}"), &[]).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn a_browser_is_told_in_json_what_its_token_lacks_and_its_page_may_read_it() {
    let gate = gate();
    let expired = Signer::secret(1).sign(&head("HS256", None), &with("exp", now() - 3_600));
    let forged = Signer::secret(2).token(None);
    for (sent, reason, challenge) in [
        (None, "TOKEN_MISSING", "Bearer realm=\"bongsu\""),
        (Some(&expired), "TOKEN_EXPIRED", "Bearer realm=\"bongsu\", error=\"invalid_token\""),
        (Some(&forged), "TOKEN_INVALID", "Bearer realm=\"bongsu\", error=\"invalid_token\""),
    ] {
        let bearer = sent.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("origin", APP)];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let answer = ask(&gate, "GET /v1/live", &headers).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(header(&answer, "www-authenticate"), [challenge]);
        assert_eq!(header(&answer, "access-control-allow-origin"), [APP]);
        assert_eq!(header(&answer, "content-type"), ["application/json"]);
        let body = text(answer).await;
        let error: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(
            (&error["error"]["status"], &error["error"]["reason"]),
            (&json!("UNAUTHENTICATED"), &json!(reason))
        );
        assert!(error["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
        assert!(sent.is_none_or(|token| !body.contains(token.as_str())), "the token is not repeated");
    }
}

#[tokio::test]
async fn a_grpc_client_is_told_in_a_status_with_its_reason() {
    let gate = gate();
    let expired = Signer::secret(1).sign(&head("HS256", None), &with("exp", now() - 3_600));
    for (bearer, reason) in [
        (None, "TOKEN_MISSING"),
        (Some(format!("Bearer {expired}")), "TOKEN_EXPIRED"),
        (Some("Bearer x".to_owned()), "TOKEN_INVALID"),
    ] {
        let mut headers = vec![("content-type", "application/grpc+proto")];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let answer = ask(&gate, "POST /bongsu.v1.InboxService/ListInbox", &headers).await;
        assert_eq!(answer.status(), StatusCode::OK, "gRPC has its own statuses");
        let status = Status::from_header_map(answer.headers()).expect("a status");
        assert_eq!(status.code(), Code::Unauthenticated);
        let info = status.get_error_details();
        let info = info.error_info().expect("an ErrorInfo");
        assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, "bongsu"));
    }
    let bearer = format!("Bearer {}", token());
    let headers = [("content-type", "application/grpc"), ("authorization", bearer.as_str())];
    let answer = ask(&gate, "POST /bongsu.v1.InboxService/ListInbox", &headers).await;
    assert_eq!(text(answer).await, "anna /bongsu.v1.InboxService/ListInbox 0");
}

#[tokio::test]
async fn a_preflight_of_an_allowed_page_is_answered_without_a_token_and_any_other_is_refused() {
    let gate = gate();
    let method = ("access-control-request-method", "POST");
    let wanted = ("access-control-request-headers", "authorization,content-type");
    let answer = ask(&gate, "OPTIONS /v1/live/acknowledge", &[("origin", APP), method, wanted]).await;
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    for (name, value) in [
        ("access-control-allow-origin", APP),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "GET, POST"),
        ("access-control-allow-headers", "authorization, content-type, last-event-id"),
        ("access-control-max-age", "600"),
    ] {
        assert_eq!(header(&answer, name), [value], "{name}");
    }
    assert!(header(&answer, "vary").join(", ").contains("origin"));
    for origin in
        ["https://evil.example", "null", "http://app.example.com", "https://app.example.com.evil.example"]
    {
        let answer = ask(&gate, "OPTIONS /v1/live/acknowledge", &[("origin", origin), method]).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{origin}");
        assert!(header(&answer, "access-control-allow-origin").is_empty(), "{origin}");
        assert!(header(&answer, "access-control-allow-methods").is_empty(), "{origin}");
    }
    let answer = ask(&gate, "OPTIONS /v1/live", &[("origin", APP)]).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "no preflight");
}

#[tokio::test]
async fn answers_may_be_read_by_allowed_pages_alone_and_caches_know_it() {
    let (gate, bearer) = (gate(), format!("Bearer {}", token()));
    for (origin, read) in [(Some(APP), true), (Some("https://evil.example"), false), (None, false)] {
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(origin.map(|origin| ("origin", origin)));
        let answer = ask(&gate, "GET /v1/live", &headers).await;
        assert_eq!(answer.status(), StatusCode::OK, "whoever has the token is let in");
        assert_eq!(header(&answer, "vary"), ["origin"]);
        let told = if read { vec![APP] } else { vec![] };
        assert_eq!(header(&answer, "access-control-allow-origin"), told);
        assert_eq!(header(&answer, "access-control-expose-headers").is_empty(), !read);
    }
    let without_cookies = Gate::new(&[Signer::secret(1).jwk(None)], |config| {
        config.allow_origins = vec![APP.parse().expect("an origin")];
    });
    let answer = ask(&without_cookies, "GET /v1/live", &[("authorization", &bearer), ("origin", APP)]).await;
    assert_eq!(header(&answer, "access-control-allow-origin"), [APP]);
    assert!(header(&answer, "access-control-allow-credentials").is_empty(), "no cookie is taken there");
}

#[tokio::test]
async fn a_page_of_somebody_elses_changes_nothing_with_the_users_cookie() {
    let (gate, cookie, bearer) = (gate(), format!("session={}", token()), format!("Bearer {}", token()));
    for (origin, status) in [
        (Some(APP), StatusCode::OK),
        (Some("https://live.example.com"), StatusCode::OK),
        (Some("https://evil.example"), StatusCode::FORBIDDEN),
        (Some("null"), StatusCode::FORBIDDEN),
        (None, StatusCode::FORBIDDEN),
    ] {
        let mut headers = vec![("cookie", cookie.as_str())];
        headers.extend(origin.map(|origin| ("origin", origin)));
        for path in ["/v1/live/acknowledge", "/v1/live/ticket"] {
            let answer = ask(&gate, &format!("POST {path}"), &headers).await;
            assert_eq!(answer.status(), status, "{path} {origin:?}");
        }
        headers.push(("authorization", &bearer));
        let answer = ask(&gate, "POST /v1/live/acknowledge", &headers).await;
        assert_eq!(answer.status(), StatusCode::OK, "no page has the token but the app's: {origin:?}");
    }
    let answer =
        ask(&gate, "POST /v1/live/ticket", &[("cookie", &cookie), ("origin", "https://evil.example")]).await;
    let error: Value = serde_json::from_str(&text(answer).await).expect("JSON");
    assert_eq!(error["error"]["reason"], "ORIGIN_NOT_ALLOWED");
    let answer = ask(&gate, "GET /v1/live", &[("cookie", &cookie), ("origin", "https://evil.example")]).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN, "nor does it open streams");
}
