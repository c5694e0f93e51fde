//! The protocols that are spoken, told apart by method and path.

use hyper::Method;
use hyper::http::request::Parts;

use crate::answer::Answer;
use crate::decision::Verdict;
use crate::push::{Push, Refusal};
use crate::sim::Sim;
use crate::{fcm, webhook};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Webhook,
    Fcm,
}

impl Protocol {
    /// None where it is no push.
    pub fn of(method: &Method, path: &str) -> Option<Self> {
        match (method, path) {
            (&Method::POST, "/push") => Some(Self::Webhook),
            (_, path) if fcm::is_path(path) => Some(Self::Fcm),
            _ => None,
        }
    }

    /// Understands a push, or answers in the protocol's own words what is none. Nothing is counted yet.
    pub fn read<'a>(self, sim: &Sim, parts: &'a Parts, body: &'a [u8]) -> Result<Push<'a>, Answer> {
        match self {
            Self::Webhook => webhook::read(parts, body).map_err(Refusal::into_answer),
            Self::Fcm => fcm::read(sim, parts, body),
        }
    }

    /// What was decided, in the protocol's own words; `number` is that of the delivery.
    pub fn reply(self, verdict: Verdict, number: u64) -> Answer {
        match self {
            Self::Webhook => webhook::reply(verdict, number),
            Self::Fcm => fcm::reply(verdict, number),
        }
    }
}
