//! Who may call what of the intake. A new method needs a line here, or nobody may call it where there is an access file.

use bongsu_ops::access::Method;
use bongsu_ops::access::Role::{Devices, Operate, Read, Submit};

/// Every method, and the roles of which one is enough. With `submit` alone a call reaches the caller's own broadcasts only:
/// `broadcasts.rs` sees to that.
pub(crate) const METHODS: &[Method] = &[
    Method::new("/bongsu.v1.BroadcastService/CreateBroadcast", &[Submit]),
    Method::new("/bongsu.v1.BroadcastService/GetBroadcast", &[Submit, Read, Operate]),
    Method::new("/bongsu.v1.BroadcastService/ListBroadcasts", &[Submit, Read, Operate]),
    Method::new("/bongsu.v1.BroadcastService/PauseBroadcast", &[Submit, Operate]),
    Method::new("/bongsu.v1.BroadcastService/ResumeBroadcast", &[Submit, Operate]),
    Method::new("/bongsu.v1.BroadcastService/CancelBroadcast", &[Submit, Operate]),
    Method::new("/bongsu.v1.BroadcastService/RescheduleBroadcast", &[Submit, Operate]),
    Method::new("/bongsu.v1.DeviceService/RegisterDevice", &[Devices]),
    Method::new("/bongsu.v1.DeviceService/UnregisterDevice", &[Devices]),
    Method::new("/bongsu.v1.DeviceService/UpdateConsent", &[Devices]),
    Method::new("/bongsu.v1.DeviceService/GetDevice", &[Devices]),
    Method::new("/bongsu.v1.DeviceService/ListDevices", &[Devices]),
    Method::new("/bongsu.v1.DeviceService/SubscribeTopic", &[Devices]),
    Method::new("/bongsu.v1.DeviceService/UnsubscribeTopic", &[Devices]),
    Method::stream("/bongsu.v1.DeviceService/ImportDevices", &[Devices]),
    // Also to mend what a provider did, which is an operator's work.
    Method::new("/bongsu.v1.DeviceService/RestoreDevices", &[Devices, Operate]),
];

#[cfg(test)]
mod tests {
    use bongsu_ops::access::described;
    use bongsu_proto::FILE_DESCRIPTOR_SET;
    use bongsu_proto::v1::{broadcast_service_server, device_service_server};

    use super::*;

    #[test]
    fn every_method_of_the_intake_has_its_roles_and_streams_are_known_as_such() {
        let services = [broadcast_service_server::SERVICE_NAME, device_service_server::SERVICE_NAME];
        let mut listed: Vec<_> =
            METHODS.iter().map(|method| (method.path.to_owned(), method.streams)).collect();
        listed.sort_unstable();
        assert_eq!(listed, described(FILE_DESCRIPTOR_SET, &services).expect("it decodes"));
        for method in METHODS {
            assert!(!method.roles.is_empty(), "{} is open to nobody", method.path);
        }
    }
}
