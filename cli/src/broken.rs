//! What a broken connection is about, in words that say what to do.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError, Error as TlsError, InvalidMessage};

/// What is wrong with TLS, where that is what is wrong.
pub(crate) fn tls_problem(error: &(dyn Error + 'static)) -> Option<&'static str> {
    causes(error).find_map(|cause| explain(unwrapped(cause).downcast_ref::<TlsError>()?))
}

/// What an I/O error holds, which is none of its causes.
fn unwrapped<'a>(mut error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        error = inner;
    }
    error
}

fn explain(error: &TlsError) -> Option<&'static str> {
    Some(match error {
        TlsError::InvalidCertificate(problem) => match problem {
            CertificateError::UnknownIssuer => {
                "its certificate is of a CA that is not trusted here: give that CA with --ca"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: whoever runs it has to renew it (or this host's clock is wrong)"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet (or this host's clock is wrong)"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name: give the address by a name that the certificate has"
            }
            _ => "its certificate cannot be trusted",
        },
        TlsError::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "it asks for a client certificate: give --client-cert and --client-key"
            }
            AlertDescription::CertificateExpired => "our client certificate has expired: get a new one",
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown => {
                "it does not accept our client certificate: is it of the CA that the service trusts?"
            }
            _ => return None,
        },
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "what listens there does not speak TLS: give an http:// address, or the right port"
        }
        _ => return None,
    })
}

/// The operating system's words are in the last one.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause| (*cause).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_found_behind_the_errors_of_the_transport() {
        let expired = TlsError::InvalidCertificate(CertificateError::Expired);
        let wrapped = io::Error::other(io::Error::other(expired.clone()));
        for error in [&wrapped as &(dyn Error + 'static), &expired] {
            assert!(tls_problem(error).is_some_and(|told| told.contains("expired")), "{error}");
        }
        assert_eq!(tls_problem(&io::Error::from(io::ErrorKind::ConnectionReset)), None);
    }
}
