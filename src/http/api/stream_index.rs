//! The index of a stream in a request body: a number; null or -1 for no stream; absent for the default.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Deserializes a stream index: `Some(None)` for null and -1. With `serde(default)`, an absent field becomes None.
pub(super) fn deserialize_stream_index<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<u32>>, D::Error> {
    match Option::<i64>::deserialize(deserializer)? {
        None | Some(-1) => Ok(Some(None)),
        Some(index) => match u32::try_from(index) {
            Ok(index) => Ok(Some(Some(index))),
            Err(_) => Err(D::Error::custom("must be a stream index of at least 0, or -1 for none")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_minus_one_are_none_and_absent_is_not() {
        #[derive(Deserialize)]
        struct Body {
            #[serde(default, deserialize_with = "deserialize_stream_index")]
            index: Option<Option<u32>>,
        }
        for (json, index) in [
            ("{}", Ok(None)),
            ("{\"index\": null}", Ok(Some(None))),
            ("{\"index\": -1}", Ok(Some(None))),
            ("{\"index\": 0}", Ok(Some(Some(0)))),
            ("{\"index\": 4294967295}", Ok(Some(Some(u32::MAX)))),
            ("{\"index\": -2}", Err(())),
            ("{\"index\": 4294967296}", Err(())),
            ("{\"index\": \"1\"}", Err(())),
            ("{\"index\": 1.5}", Err(())),
        ] {
            assert_eq!(serde_json::from_str::<Body>(json).map(|body| body.index).map_err(|_| ()), index, "{json}");
        }
    }
}
