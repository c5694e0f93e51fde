//! What one client got, and what is wrong with it.

use std::time::SystemTime;

/// Written while it happens.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub connections: Vec<Connection>,
    /// One per notification, in the order in which they came.
    pub receipts: Vec<Receipt>,
    /// Reasons of gaps.
    pub gaps: Vec<String>,
    /// Breaks of connections, and attempts in vain to make one.
    pub breaks: u32,
    /// Why there was no connection, the last time.
    pub last_break: Option<String>,
    /// Why it was refused for good.
    pub refused: Option<String>,
    /// What no client should see.
    pub mistakes: Vec<String>,
    /// The number of the last event on the connection that is open.
    last_number: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Connection {
    pub address: String,
    pub from: SystemTime,
    /// None while it is open.
    pub to: Option<SystemTime>,
}

/// A notification, shown once.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub notification: i64,
    pub event: String,
    pub at: SystemTime,
    /// How often it came again, on later connections.
    pub again: u32,
    /// When a server's answer said that it knows.
    pub acknowledged_at: Option<SystemTime>,
}

impl Record {
    /// Of this notification; none where it did not come.
    pub fn receipt(&self, notification: i64) -> Option<&Receipt> {
        self.receipts.iter().find(|receipt| receipt.notification == notification)
    }

    /// Whether it was connected there at that moment.
    pub fn was_at(&self, address: &str, moment: SystemTime) -> bool {
        self.connections.iter().any(|connection| {
            connection.address == address
                && connection.from <= moment
                && connection.to.is_none_or(|to| to >= moment)
        })
    }

    /// When it was connected for the first time after that moment.
    pub fn connected_after(&self, moment: SystemTime) -> Option<SystemTime> {
        self.connections.iter().map(|connection| connection.from).find(|from| *from > moment)
    }

    pub fn connected(&mut self, address: String, at: SystemTime) {
        self.connections.push(Connection { address, from: at, to: None });
        self.last_number = None;
    }

    /// Whether it was connected.
    pub fn disconnected(&mut self, at: SystemTime) -> bool {
        match self.connections.last_mut() {
            Some(open) if open.to.is_none() => {
                open.to = Some(at);
                true
            }
            _ => false,
        }
    }

    pub fn lost(&mut self, because: String) {
        self.breaks += 1;
        self.last_break = Some(because);
    }

    /// `again` as the client sees it; whether it was shown.
    pub fn received(&mut self, notification: i64, event: &str, again: bool, at: SystemTime) -> bool {
        self.check_order(event);
        let known = self.receipts.iter_mut().find(|receipt| receipt.notification == notification);
        let Some(receipt) = known else {
            let event = event.to_owned();
            self.receipts.push(Receipt { notification, event, at, again: 0, acknowledged_at: None });
            return true;
        };
        receipt.again += 1;
        if !again {
            self.mistakes.push(format!("notification {notification} was shown twice"));
        }
        if receipt.event != event {
            self.mistakes.push(format!(
                "notification {notification} came as event {} and as event {event}",
                receipt.event
            ));
        }
        false
    }

    /// Whether that is new.
    pub fn acknowledged(&mut self, notification: i64, at: SystemTime) -> bool {
        let known = self.receipts.iter_mut().find(|receipt| receipt.notification == notification);
        known.is_some_and(|receipt| receipt.acknowledged_at.replace(at).is_none())
    }

    /// On one connection numbers only grow, so that nothing comes twice.
    fn check_order(&mut self, event: &str) {
        let number = event.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        let Some(number) = number else {
            self.mistakes.push(format!("`{event}` is no event id"));
            return;
        };
        if let Some(last) = self.last_number.filter(|last| *last >= number) {
            self.mistakes.push(format!("event {number} came after event {last} on one connection"));
        }
        self.last_number = Some(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_that_comes_again_on_another_connection_is_no_mistake() {
        let now = SystemTime::now();
        let mut record = Record::default();
        record.connected("a".to_owned(), now);
        assert!(record.received(41, "7-1", false, now) && record.received(42, "7-2", false, now));
        assert!(record.disconnected(now) && !record.disconnected(now));
        record.connected("b".to_owned(), now);
        assert!(!record.received(41, "7-1", true, now));
        assert_eq!(record.receipt(41).map(|receipt| receipt.again), Some(1));
        assert!(record.acknowledged(41, now) && !record.acknowledged(41, now));
        assert!(record.mistakes.is_empty(), "{:?}", record.mistakes);
    }

    #[test]
    fn what_no_client_should_see_is_a_mistake() {
        let now = SystemTime::now();
        let mistakes = |again: &[(i64, &str, bool)]| {
            let mut record = Record::default();
            record.connected("a".to_owned(), now);
            for (notification, event, again) in again {
                record.received(*notification, event, *again, now);
            }
            record.mistakes.join(", ")
        };
        assert_eq!(mistakes(&[(41, "7-1", false), (42, "7-2", false)]), "");
        assert!(mistakes(&[(41, "7-2", false), (42, "7-1", false)]).contains("event 1 came after event 2"));
        assert!(mistakes(&[(41, "7-1", false), (41, "7-2", false)]).contains("shown twice"));
        assert!(mistakes(&[(41, "7-1", false), (41, "7-2", true)]).contains("as event 7-1 and as event 7-2"));
        assert!(mistakes(&[(41, "x", false)]).contains("no event id"));
    }
}
