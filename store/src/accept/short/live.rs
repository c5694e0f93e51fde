//! Events of short lists that go out live.

use sqlx::PgConnection;

use super::Stored;
use crate::broadcast::{Audience, NewBroadcast};
use crate::error::Result;
use crate::ids::{BroadcastId, DeviceId};
use crate::live;

/// Makes the events of those of `new` that were stored and go out live: for all listed users, and for the users of listed devices.
pub(super) async fn make_events(
    connection: &mut PgConnection,
    new: &[&NewBroadcast],
    stored: &mut [Option<Stored>],
) -> Result<()> {
    let owners = owners(connection, new, stored).await?;
    let mut pairs: Vec<(BroadcastId, &str)> = vec![];
    for (new, stored) in new.iter().zip(&*stored) {
        if let (Some(stored), true, Audience::Users(users)) = (stored, new.routing.is_live(), &new.audience) {
            pairs.extend(users.iter().map(|user| (stored.id, user.as_str())));
        }
    }
    pairs.extend(owners.iter().map(|(id, user)| (*id, user.as_str())));
    for (id, user) in live::make(connection, &pairs).await? {
        // A group is some dozens at most.
        if let Some(stored) = stored.iter_mut().flatten().find(|stored| stored.id == id) {
            stored.told.push(user);
        }
    }
    Ok(())
}

/// The users of the devices that live ones of `new` list, each once a broadcast.
async fn owners(
    connection: &mut PgConnection,
    new: &[&NewBroadcast],
    stored: &[Option<Stored>],
) -> Result<Vec<(BroadcastId, String)>> {
    let (mut devices, mut of) = (vec![], vec![]);
    for (new, stored) in new.iter().zip(stored) {
        if let (Some(stored), true, Audience::Devices(list)) = (stored, new.routing.is_live(), &new.audience)
        {
            devices.extend(list.iter().inspect(|_| of.push(stored.id.0)).map(|DeviceId(id)| *id));
        }
    }
    if devices.is_empty() {
        return Ok(vec![]);
    }
    let owners =
        sqlx::query_file!("queries/live_users_of_devices.sql", &devices, &of).fetch_all(connection).await?;
    Ok(owners.into_iter().map(|row| (row.broadcast, row.user_id)).collect())
}
