//! The index of a stream in a body: players say "none" by null, by -1, or not at all.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// An index as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamIndex {
    /// Absent or null: nothing is said.
    #[default]
    Absent,
    /// -1: none is meant.
    None,
    At(u32),
}

impl StreamIndex {
    /// The stream, where one is named.
    pub fn stream(self) -> Option<u32> {
        self.given().flatten()
    }

    /// None where nothing is said; `Some(None)` where none is meant.
    pub fn given(self) -> Option<Option<u32>> {
        match self {
            Self::Absent => None,
            Self::None => Some(None),
            Self::At(index) => Some(Some(index)),
        }
    }
}

impl<'de> Deserialize<'de> for StreamIndex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<i64>::deserialize(deserializer)? {
            None => Ok(Self::Absent),
            Some(-1) => Ok(Self::None),
            Some(index) => match u32::try_from(index) {
                Ok(index) => Ok(Self::At(index)),
                Err(_) => Err(D::Error::custom("must be a stream index from 0, or -1 for none")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_said_in_three_ways() {
        for (json, index) in [
            ("null", Ok(StreamIndex::Absent)),
            ("-1", Ok(StreamIndex::None)),
            ("0", Ok(StreamIndex::At(0))),
            ("4294967295", Ok(StreamIndex::At(u32::MAX))),
            ("-2", Err(())),
            ("4294967296", Err(())),
            ("\"1\"", Err(())),
            ("1.5", Err(())),
        ] {
            assert_eq!(serde_json::from_str::<StreamIndex>(json).map_err(|_| ()), index, "{json}");
        }
        assert_eq!(StreamIndex::None.given(), Some(None));
        assert_eq!(StreamIndex::None.stream(), None);
    }
}
