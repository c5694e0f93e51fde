//! When reading a range of a key is cheaper than looking up what is wanted in it.

use crate::ids::DeviceId;

/// A lookup by key costs about as much as reading so many rows that lie beside each other.
const NEIGHBOURS_PER_LOOKUP: u64 = 8;

/// Devices from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceRange {
    pub first: DeviceId,
    pub last: DeviceId,
}

impl DeviceRange {
    /// The least that holds them all.
    pub fn of(devices: impl Iterator<Item = DeviceId> + Clone) -> Option<Self> {
        Some(Self { first: devices.clone().min()?, last: devices.max()? })
    }

    /// Ids in it, whether there is such a device or not.
    pub fn ids(self) -> u64 {
        (self.last.0 - self.first.0).unsigned_abs() + 1
    }

    /// Whether to read it for the sake of `wanted` devices. There are no more than `most` rows in it, where that is known.
    pub fn pays_for(self, wanted: usize, most: Option<u64>) -> bool {
        let rows = most.map_or(self.ids(), |most| most.min(self.ids()));
        rows <= NEIGHBOURS_PER_LOOKUP * wanted as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_pays_unless_it_is_mostly_others() {
        let range = DeviceRange::of([7, 3, 11].map(DeviceId).into_iter()).expect("it has devices");
        assert_eq!((range.first, range.last, range.ids()), (DeviceId(3), DeviceId(11), 9));
        assert!(range.pays_for(2, None));
        assert!(!range.pays_for(1, None), "eight others");
        assert!(range.pays_for(1, Some(8)), "no more than these are there");
        assert_eq!(DeviceRange::of(std::iter::empty()), None);
    }
}
