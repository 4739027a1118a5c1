//! The index of a stream in a request body: a number; null or -1 for no stream; absent for the default.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A stream index as the body gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamIndex {
    #[default]
    Absent,
    /// Null or -1.
    None,
    Index(u32),
}

impl StreamIndex {
    /// The stream, if the body names one.
    pub fn stream(self) -> Option<u32> {
        self.selection().flatten()
    }

    /// The index if the body has the field: None if absent, `Some(None)` for null and -1.
    pub fn selection(self) -> Option<Option<u32>> {
        match self {
            Self::Absent => None,
            Self::None => Some(None),
            Self::Index(index) => Some(Some(index)),
        }
    }
}

impl<'de> Deserialize<'de> for StreamIndex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<i64>::deserialize(deserializer)? {
            None | Some(-1) => Ok(Self::None),
            Some(index) => match u32::try_from(index) {
                Ok(index) => Ok(Self::Index(index)),
                Err(_) => Err(D::Error::custom("must be a stream index of at least 0, or -1 for none")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_minus_one_are_none_and_absent_is_not() {
        for (json, index) in [
            ("null", Ok(StreamIndex::None)),
            ("-1", Ok(StreamIndex::None)),
            ("0", Ok(StreamIndex::Index(0))),
            ("4294967295", Ok(StreamIndex::Index(u32::MAX))),
            ("-2", Err(())),
            ("4294967296", Err(())),
            ("\"1\"", Err(())),
            ("1.5", Err(())),
        ] {
            assert_eq!(serde_json::from_str::<StreamIndex>(json).map_err(|_| ()), index, "{json}");
        }
        for (index, expected) in
            [(StreamIndex::Absent, None), (StreamIndex::None, Some(None)), (StreamIndex::Index(1), Some(Some(1)))]
        {
            assert_eq!((index.selection(), index.stream()), (expected, expected.flatten()), "{index:?}");
        }
    }
}
