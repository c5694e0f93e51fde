//! The protocols that are spoken, told apart by method and path.

use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;

use crate::answer::Answer;
use crate::decision::Verdict;
use crate::push::{Push, Refusal};
use crate::sim::Sim;
use crate::{Behaviour, apns, fcm, webhook, webpush};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Webhook,
    Fcm,
    Apns,
    WebPush,
}

impl Protocol {
    /// None where it is no push.
    pub fn of(method: &Method, path: &str) -> Option<Self> {
        match (method, path) {
            (&Method::POST, "/push") => Some(Self::Webhook),
            (_, path) if fcm::is_path(path) => Some(Self::Fcm),
            // Whatever the method: it has words for that, too.
            (_, path) if apns::is_push(path) => Some(Self::Apns),
            (&Method::POST, path) if path.starts_with(webpush::RESOURCES) => Some(Self::WebPush),
            _ => None,
        }
    }

    /// Understands a push, or answers in the protocol's own words what is none. Nothing is counted yet.
    pub fn read<'a>(self, sim: &Sim, parts: &'a Parts, body: &'a [u8]) -> Result<Push<'a>, Answer> {
        match self {
            Self::Webhook => webhook::read(sim, parts, body).map_err(Refusal::into_answer),
            Self::Fcm => fcm::read(sim, parts, body),
            Self::Apns => apns::read(sim, parts, body),
            Self::WebPush => webpush::read(sim, parts, body).map_err(Refusal::into_answer),
        }
    }

    /// What an answer repeats of its request.
    pub fn echo(self, parts: &Parts) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Webhook | Self::Fcm | Self::WebPush => None,
            Self::Apns => apns::echo(parts),
        }
    }

    /// What was decided, in the protocol's own words; `number` is that of the delivery.
    pub fn reply(self, verdict: Verdict, number: u64, behaviour: &Behaviour) -> Answer {
        match self {
            Self::Webhook => webhook::reply(verdict, number),
            Self::Fcm => fcm::reply(verdict, number),
            Self::Apns => apns::reply(verdict, behaviour),
            Self::WebPush => webpush::reply(verdict, number),
        }
    }
}
