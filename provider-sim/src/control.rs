//! Everything beside `/push`: reading the counts and changing the behaviour.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};

use crate::answer::{self, Answer, DeliveryLines};
use crate::ledger::Wait;
use crate::push::{Refusal, read_whole};
use crate::sim::Sim;
use crate::{BehaviourPatch, apns, fcm, query, webpush};

const DEFAULT_WAIT_MS: u64 = 30_000;
const MAX_WAIT_MS: u64 = 3_600_000;

const PATHS: &str = "POST /push, GET /stats, GET|PATCH /behaviour, GET /wait, POST /mark, GET /deliveries, POST /reset, GET /ca.pem, GET /fcm/service-account.json, POST /token, POST /fcm/revoke, GET /apns/key.p8, POST /webpush/NAME, GET /webpush/subscription/NAME, GET /webpush/payload/NAME, GET /healthz";

pub(crate) async fn control(sim: &Arc<Sim>, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let answered = match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/stats") => Ok(answer::json(StatusCode::OK, &sim.lock().ledger.stats())),
        (&Method::GET, "/behaviour") => Ok(answer::json(StatusCode::OK, &sim.lock().behaviour)),
        (&Method::PATCH, "/behaviour") => patch_behaviour(sim, body).await,
        (&Method::GET, "/wait") => wait(sim, query).await,
        (&Method::POST, "/mark") => Ok(answer::json(StatusCode::OK, &sim.lock().ledger.mark())),
        (&Method::POST, "/reset") => Ok(answer::json(StatusCode::OK, &sim.lock().ledger.reset())),
        (&Method::GET, "/deliveries") => deliveries(sim, query),
        (&Method::GET, "/healthz") => Ok(answer::json_text(StatusCode::OK, r#"{"status":"ok"}"#)),
        (&Method::GET, "/ca.pem") => Ok(answer::pem(sim.identity.ca_pem.clone())),
        (&Method::GET, "/fcm/service-account.json") => Ok(fcm::key_file(&parts)),
        (&Method::POST, "/fcm/revoke") => Ok(sim.fcm.revoke()),
        (&Method::POST, "/token") => fcm_token(sim, &parts, body).await,
        (&Method::GET, "/apns/key.p8") => Ok(answer::pem(apns::KEY_PEM.to_owned())),
        (
            _,
            "/stats"
            | "/wait"
            | "/deliveries"
            | "/ca.pem"
            | "/apns/key.p8"
            | "/fcm/service-account.json"
            | "/healthz",
        ) => Ok(not_allowed("GET")),
        (_, "/behaviour") => Ok(not_allowed("GET, PATCH")),
        (_, "/push" | "/mark" | "/reset" | "/token" | "/fcm/revoke") => Ok(not_allowed("POST")),
        (&Method::GET, path) if path.starts_with(webpush::RESOURCES) => {
            webpush::get(sim, &parts).unwrap_or_else(|| Ok(not_found(path)))
        }
        (_, path) => Ok(not_found(path)),
    };
    answered.unwrap_or_else(Refusal::into_answer)
}

fn not_found(path: &str) -> Answer {
    let detail = format!("there is no {path}; there are {PATHS}");
    answer::refusal(StatusCode::NOT_FOUND, "not_found", &detail)
}

async fn patch_behaviour(sim: &Sim, body: Incoming) -> Result<Answer, Refusal> {
    let body = read_whole(body).await?;
    // serde's message for an unknown field names it and lists those there are.
    let patch: BehaviourPatch = serde_json::from_slice(&body)
        .map_err(|error| Refusal::malformed(format!("not a behaviour in JSON: {error}")))?;
    let mut state = sim.lock();
    let behaviour = state.behaviour.patched(&patch);
    behaviour.check().map_err(|invalid| Refusal::malformed(invalid.to_string()))?;
    state.behaviour = behaviour;
    Ok(answer::json(StatusCode::OK, &state.behaviour))
}

async fn fcm_token(sim: &Sim, parts: &Parts, body: Incoming) -> Result<Answer, Refusal> {
    let body = read_whole(body).await?;
    let behaviour = {
        let mut state = sim.lock();
        state.ledger.fcm_token_asked();
        state.behaviour.clone()
    };
    Ok(sim.fcm.token(parts, &body, &behaviour))
}

async fn wait(sim: &Sim, query: &str) -> Result<Answer, Refusal> {
    let (mut accepted, mut timeout_ms) = (None, DEFAULT_WAIT_MS);
    for (name, value) in pairs(query)? {
        match name.as_str() {
            "accepted" => accepted = Some(number(&name, &value)?),
            "timeout_ms" => timeout_ms = number(&name, &value)?,
            _ => return Err(unknown_parameter(&name, "accepted, timeout_ms")),
        }
    }
    let accepted = accepted.ok_or_else(|| Refusal::malformed("`accepted` is missing: /wait?accepted=N"))?;
    if timeout_ms > MAX_WAIT_MS {
        return Err(Refusal::malformed(format!("`timeout_ms` may be {MAX_WAIT_MS} at most")));
    }
    let wait = sim.lock().ledger.wait(accepted);
    let coming = match wait {
        Wait::Reached(stats) => return Ok(answer::json(StatusCode::OK, &*stats)),
        Wait::TooMany => return Ok(unavailable("too many are waiting")),
        Wait::Coming(coming) => coming,
    };
    match tokio::time::timeout(Duration::from_millis(timeout_ms), coming).await {
        Ok(Ok(stats)) => Ok(answer::json(StatusCode::OK, &stats)),
        Ok(Err(_)) => Ok(unavailable("the count ended")),
        Err(_) => {
            let now = sim.lock().ledger.stats().accepted;
            let detail = format!("{now} of {accepted} were accepted after {timeout_ms} ms");
            Ok(answer::refusal(StatusCode::REQUEST_TIMEOUT, "timeout", &detail))
        }
    }
}

fn deliveries(sim: &Arc<Sim>, query: &str) -> Result<Answer, Refusal> {
    let (mut key, mut only_duplicates) = (None, false);
    for (name, value) in pairs(query)? {
        match (name.as_str(), value.as_str()) {
            ("key", _) => key = Some(value),
            ("duplicates", "true") => only_duplicates = true,
            ("duplicates", "false") => only_duplicates = false,
            ("duplicates", _) => return Err(Refusal::malformed("`duplicates` is true or false")),
            _ => return Err(unknown_parameter(&name, "key, duplicates")),
        }
    }
    let Some(key) = key else {
        return Ok(answer::json_lines(DeliveryLines::new(Arc::clone(sim), only_duplicates)));
    };
    let found = sim.lock().ledger.delivery(&key);
    Ok(match found {
        Some(record) => answer::json(StatusCode::OK, &record),
        None => answer::refusal(StatusCode::NOT_FOUND, "not_found", "no push had this key"),
    })
}

fn pairs(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    query::pairs(query).ok_or_else(|| Refusal::malformed("the query is not percent-encoded UTF-8"))
}

fn number(name: &str, value: &str) -> Result<u64, Refusal> {
    value.parse().map_err(|_| Refusal::malformed(format!("`{name}` is {value:?}, not a whole number")))
}

fn unknown_parameter(name: &str, known: &str) -> Refusal {
    Refusal::malformed(format!("there is no parameter `{name}`; there are {known}"))
}

fn not_allowed(allow: &'static str) -> Answer {
    let mut answer = answer::refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", allow);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    answer
}

fn unavailable(detail: &str) -> Answer {
    answer::refusal(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
}
