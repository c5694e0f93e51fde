//! Who may call what of the sender. A new method needs a line here, or nobody may call it where there is an access file.

use bongsu_ops::access::Method;
use bongsu_ops::access::Role::{Operate, Read, Submit};

/// Every method, and the roles of which one is enough. With `submit` alone a call reaches the caller's own broadcasts only:
/// `rpc` sees to that.
pub const METHODS: &[Method] = &[
    Method::stream("/bongsu.v1.DeliveryService/StreamStatus", &[Submit, Read, Operate]),
    Method::new("/bongsu.v1.DeliveryService/GetStatus", &[Submit, Read, Operate]),
    Method::new("/bongsu.v1.DeliveryService/ListDeliveries", &[Submit, Read, Operate]),
    Method::new("/bongsu.v1.DeliveryService/ExplainDelivery", &[Submit, Read, Operate]),
    Method::new("/bongsu.v1.DeliveryService/ListSenders", &[Read, Operate]),
    Method::new("/bongsu.v1.DeliveryService/ListDeadLetters", &[Submit, Read, Operate]),
    Method::new("/bongsu.v1.DeliveryService/ReplayDeadLetters", &[Submit, Operate]),
    Method::new("/bongsu.v1.DeliveryService/PurgeDeadLetters", &[Operate]),
    Method::new("/bongsu.v1.ProviderService/ListProviders", &[Read, Operate]),
    Method::new("/bongsu.v1.ProviderService/ParkProvider", &[Operate]),
    Method::new("/bongsu.v1.ProviderService/UnparkProvider", &[Operate]),
];

#[cfg(test)]
mod tests {
    use bongsu_ops::access::described;
    use bongsu_proto::FILE_DESCRIPTOR_SET;
    use bongsu_proto::v1::{delivery_service_server, provider_service_server};

    use super::*;

    #[test]
    fn every_method_of_the_sender_has_its_roles_and_streams_are_known_as_such() {
        let services = [delivery_service_server::SERVICE_NAME, provider_service_server::SERVICE_NAME];
        let mut listed: Vec<_> =
            METHODS.iter().map(|method| (method.path.to_owned(), method.streams)).collect();
        listed.sort_unstable();
        assert_eq!(listed, described(FILE_DESCRIPTOR_SET, &services).expect("it decodes"));
        for method in METHODS {
            assert!(!method.roles.is_empty(), "{} is open to nobody", method.path);
        }
    }
}
