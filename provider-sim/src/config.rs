//! What the simulator is started with.

use std::net::{Ipv4Addr, SocketAddr};

use crate::{Behaviour, WebhookSecret};

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8090);

// No argument group: it would be called `Config` and clash with every other `Config` flattened into one command.
#[derive(clap::Args, Clone, Debug, PartialEq)]
#[group(skip)]
pub struct Config {
    /// Address to serve pushes and control on; port 0 takes a free one
    #[arg(long, env = "BONGSU_SIM_LISTEN", value_name = "ADDR", default_value_t = DEFAULT_LISTEN)]
    pub listen: SocketAddr,

    /// Refuse pushes of the webhook that are not signed with this secret, `whsec_…` (Standard Webhooks)
    #[arg(long, env = "BONGSU_SIM_WEBHOOK_SECRET", value_name = "SECRET", hide_env_values = true)]
    pub webhook_secret: Option<WebhookSecret>,

    /// How it behaves until told otherwise by `PATCH /behaviour`
    #[command(flatten)]
    pub behaviour: Behaviour,
}

impl Default for Config {
    fn default() -> Self {
        Self { listen: DEFAULT_LISTEN, webhook_secret: None, behaviour: Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        config: Config,
    }

    #[test]
    fn the_command_line_without_flags_is_the_default() {
        assert_eq!(Cli::parse_from(["sim"]).config, Config::default());
    }

    #[test]
    fn every_flag_reaches_its_field() {
        let line = "sim --listen 127.0.0.1:9 --latency-ms 30 --jitter-ms 10 --capacity-per-s 40 --transient 0.03 --retry-after-s 7 \
                    --throttle-times 2 --outage --outage-start-s 1.5 --outage-duration-s 4 --status 401 --hang \
                    --goaway-after 50 --max-streams 20 --max-connections 3 --dedupe --http1 --lenient --seed 9 \
                    --fcm-token-lifetime-s 60 --fcm-token-status 503 \
                    --unregistered-ago-s 5 --provider-token-interval-s 6 --clock-ahead-s -7 --webhook-secret whsec_AAAA";
        let expected = Config {
            listen: "127.0.0.1:9".parse().expect("an address"),
            webhook_secret: "whsec_AAAA".parse().ok(),
            behaviour: Behaviour {
                latency_ms: 30,
                jitter_ms: 10,
                capacity_per_s: 40,
                transient: 0.03,
                retry_after_s: Some(7),
                throttle_times: 2,
                outage: true,
                outage_start_s: 1.5,
                outage_duration_s: 4.0,
                status: Some(401),
                hang: true,
                goaway_after: 50,
                max_streams: 20,
                max_connections: 3,
                dedupe: true,
                http1: true,
                lenient: true,
                fcm_token_lifetime_s: 60,
                fcm_token_status: Some(503),
                unregistered_ago_s: 5,
                provider_token_interval_s: 6,
                clock_ahead_s: -7,
                seed: 9,
            },
        };
        assert_eq!(Cli::parse_from(line.split_whitespace()).config, expected);
    }
}
