//! `bongsu providers list|park|unpark`.

use bongsu_proto::v1;

use crate::Context;
use crate::error::Failure;
use crate::table::Table;
use crate::view::{ProviderView, provider_columns, provider_row};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Every provider that a sender was configured with, and whether it is called
    List,
    Unpark(UnparkArgs),
    Park(ParkArgs),
}

/// Stop the calls to a provider until somebody unparks it
///
/// Its deliveries wait, without using up attempts, and expire like any others. Nothing but `unpark` ends it.
#[derive(Debug, clap::Args)]
pub struct ParkArgs {
    /// Name of the provider
    #[arg(value_name = "PROVIDER")]
    provider: String,

    /// Why, for whoever finds it parked: at most 512 bytes
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Take up again a provider that is parked
///
/// One that fails is taken up by itself once it works; one that called implausibly many tokens gone, once a call to it succeeds;
/// one that was parked by hand only by this.
#[derive(Debug, clap::Args)]
pub struct UnparkArgs {
    /// Name of the provider
    #[arg(value_name = "PROVIDER")]
    provider: String,
}

pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    let client = context.servers.sender().await?;
    let output = context.output;
    match command {
        Command::List => {
            let request = v1::ListProvidersRequest {};
            let answer = client.call("list providers", client.providers().list_providers(request)).await?;
            if output.json {
                return answer.providers.iter().try_for_each(|p| output.object(&ProviderView::from(p)));
            }
            let rows = answer.providers.iter().map(provider_row).collect();
            output.data(&Table::new(&provider_columns()).page(rows))
        }
        Command::Park(ParkArgs { provider, reason }) => {
            let request = v1::ParkProviderRequest { provider: provider.clone(), reason };
            let answer = client.call("park the provider", client.providers().park_provider(request)).await?;
            let now = answer.provider.unwrap_or_default();
            output.either(&ProviderView::from(&now), || {
                format!("{provider} is not called any more; `bongsu providers unpark {provider}` ends it\n")
            })
        }
        Command::Unpark(UnparkArgs { provider }) => {
            let request = v1::UnparkProviderRequest { provider: provider.clone() };
            let answer =
                client.call("unpark the provider", client.providers().unpark_provider(request)).await?;
            let now = answer.provider.unwrap_or_default();
            output.either(&ProviderView::from(&now), || format!("{provider} is called again\n"))
        }
    }
}
