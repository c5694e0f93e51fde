//! A push provider that can be told to misbehave and that counts duplicates.
//!
//! The demo, the tests and the benchmarks send to it over real HTTP, HTTP/1.1 and HTTP/2 on one port, in clear text (HTTP/2
//! with prior knowledge) or TLS, and then ask it what arrived: it is the only witness that does not share code with what it judges.
//!
//! # When a push counts
//!
//! **The answer is decided and counted at the moment the request has been read whole, before the latency.** A real
//! provider that has read a request delivers it, even if the caller dies before the answer; a simulator that counted
//! when it answered would not see the duplicates that a killed sender makes. So `accepted` runs ahead of what callers
//! know by the calls that are `open`.
//!
//! # When there are too many connections
//!
//! A connection beyond `max_connections` is accepted and closed at once, before anything is read from it, as real
//! providers do: what a caller wrote into it was never a push. It is counted as one of `refused_connections`. All
//! connections count alike, because at that moment nobody knows what one is for. So whoever wants to ask or change
//! something while the limit is reached keeps a connection open from before; one of HTTP/2 carries all requests at a time.
//!
//! # The protocol
//!
//! `POST /push` takes `{"to":"<token>","notification":{"broadcast_id":"…","title":"…","body":"…","data":{…}}}` and
//! answers JSON. Only `to` is needed. `Idempotency-Key` (1 to 255 visible ASCII bytes) names the delivery; without it
//! the name is `<to>/<broadcast_id>`.
//!
//! | answer | body | when |
//! | --- | --- | --- |
//! | 200 | `{"id":"<n>"}` | accepted; a repeated key gets the same id |
//! | 401 | `{"error":"unauthorized"}` | not signed with the secret that it was started with (Standard Webhooks) |
//! | 400 | `{"error":"rejected"}` | tokens beginning with `rejected-` |
//! | 400 | `{"error":"mismatched"}` | tokens beginning with `mismatched-`: in the plain protocol the same as the one before |
//! | 400, 413, 507 | `{"error":"malformed"}`, … with `detail` | not a push; too large; no room for another key |
//! | 410 | `{"error":"unregistered"}` | tokens beginning with `expired-` |
//! | 429 | `{"error":"throttled"}` | tokens beginning with `throttled-`, the first times; always with `Retry-After` |
//! | 503 | `{"error":"unavailable"}` | transient, outage, tokens beginning with `failing-` |
//!
//! # FCM
//!
//! `POST /v1/projects/bongsu-test/messages:send` is Firebase Cloud Messaging's, and as strict: what the real one would refuse
//! is refused, in its words. The name of a delivery is `<token>/<android.collapse_key>`. `validate_only` is answered and not
//! counted. Tokens decide as above; the errors are UNREGISTERED, INVALID_ARGUMENT, SENDER_ID_MISMATCH, QUOTA_EXCEEDED and
//! UNAVAILABLE. Before it, `POST /token` gives an access token for an assertion (RFC 7523) signed with the key of
//! `GET /fcm/service-account.json`, a key that opens nothing; `POST /fcm/revoke` ends all tokens.
//!
//! # Apple Push Notification service
//!
//! `POST /3/device/<token>`, over HTTP/2, with a provider token of the team `TESTTEAM00` signed with the key that `GET
//! /apns/key.p8` tells (id `TESTKEY000`), for the topic `example.bongsu.app`. Device tokens are the hexadecimal digits of what
//! `to` is elsewhere, and `apns-id` names the delivery. Everything that Apple documents is checked, and refused in its words.
//!
//! # Web push
//!
//! `POST /webpush/{name}` is a push service's resource for the browser of that name (RFC 8030): it wants TTL, opens what is
//! encrypted (RFC 8291) and checks who sends it (RFC 8292), unless it is `lenient`. The delivery's name is
//! `<name>/<broadcast_id>`, of what was encrypted; where it is lenient, `<name>/<Topic>`. Names are answered like tokens above,
//! with 201 where it accepts; also 401 without credentials, 403 with wrong ones, 413 beyond 4,096 bytes.
//! `GET /webpush/subscription/{name}` is what the browser's page would pass on, with the host that was asked, and
//! `GET /webpush/payload/{name}` what the browser was sent last (of the last 64 pushes that were opened).
//!
//! # Control, on the same port
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /stats` | [`Stats`] |
//! | `GET /behaviour`, `PATCH /behaviour` with a [`BehaviourPatch`] | the [`Behaviour`] now |
//! | `GET /wait?accepted=N&timeout_ms=M` | [`Stats`] as they were when the Nth acceptance was counted; 408 after M ms |
//! | `POST /mark` | remembers now as the [`Mark`], to measure a stall; [`Stats`] |
//! | `GET /deliveries`, `?duplicates=true`, `?key=K` | a [`DeliveryRecord`] per line in order of arrival; or one, or 404 |
//! | `POST /reset` | forgets counts, keys and mark, keeps the behaviour; [`Stats`] |
//! | `GET /ca.pem` | the certificate to trust for TLS, made anew at each start |
//! | `GET /apns/key.p8` | a test key, which opens nothing but this |
//! | `GET /healthz` | 200 |

// A refused push is the rare case, and its answer is moved twice.
#![allow(clippy::result_large_err)]

mod answer;
mod apns;
mod behaviour;
mod clock;
mod config;
mod control;
mod decision;
mod fcm;
mod keys;
mod ledger;
mod protocol;
mod push;
mod query;
mod server;
mod signature;
mod sim;
mod stats;
mod tls;
mod webhook;
mod webpush;

pub use apns::{KEY_ID as APNS_KEY_ID, TEAM_ID as APNS_TEAM_ID, TOPIC as APNS_TOPIC};
pub use behaviour::{Behaviour, BehaviourPatch, InvalidBehaviour};
pub use config::Config;
pub use server::run;
pub use signature::WebhookSecret;
pub use stats::{DeliveryRecord, Mark, Stats};
