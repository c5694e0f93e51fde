use crate::harness::{registration, start};
use bongsu_proto::v1::{DeviceRegistration, ImportDevicesRequest};
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore]
async fn bench() {
    let intake = start().await;
    let n: usize = std::env::var("N").unwrap_or("1000000".into()).parse().unwrap();
    let per: usize = std::env::var("PER").unwrap_or("5000".into()).parse().unwrap();
    for round in 0..2 {
        let begin = std::time::Instant::now();
        let stream = tokio_stream::iter((0..n / per).map(move |m| {
            ImportDevicesRequest {
                registrations: (0..per)
                    .map(|i| {
                        let k = m * per + i;
                        DeviceRegistration {
                            installation_id: format!("inst-{k}-{:032x}", k * 7919),
                            topics: if k % 10 == 0 { vec!["news".into()] } else { vec![] },
                            ..registration(
                                &format!(
                                    "{:0140x}",
                                    (k as u128).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_0C29)
                                ),
                                &format!("user-{}", k / 2),
                            )
                        }
                    })
                    .collect(),
            }
        }));
        let mut c = intake.devices.clone();
        let r = c.import_devices(stream).await.unwrap().into_inner();
        let s = begin.elapsed().as_secs_f64();
        println!(
            "round {round}: {} rows created {} refreshed {} in {s:.1}s = {:.0}/s",
            r.rows,
            r.created,
            r.refreshed,
            r.rows as f64 / s
        );
    }
}
