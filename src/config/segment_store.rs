//! The settings of the store of encoded segments that servers share.

use std::time::Duration;

use super::Config;
use super::errors::missing_feature;

/// Time for a segment from the store. Then it is made here, and the store is left alone for a while.
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(1);

impl Config {
    /// Why the settings of the shared store are not accepted.
    pub(super) fn store_error(&self) -> Option<String> {
        let Some(address) = &self.segments else {
            let details = [
                ("segments_endpoint", self.segments_endpoint.is_some()),
                ("segments_region", self.segments_region.is_some()),
                ("segments_credentials_file", self.segments_credentials_file.is_some()),
            ];
            let (name, _) = details.into_iter().find(|(_, is_set)| *is_set)?;
            return Some(format!("{name} requires segments = \"s3://bucket/prefix\""));
        };
        if !cfg!(feature = "cluster") {
            let reason = "segments is set, but this program was built without a shared segment store";
            return Some(missing_feature(reason, "cluster"));
        }
        let rest = address.strip_prefix("s3://").unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let has_only = |text: &str, allowed: &[u8]| {
            text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || allowed.contains(&byte))
        };
        let is_prefix = prefix.split('/').all(|part| part != "." && part != "..")
            && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
        if !(3..=63).contains(&bucket.len()) || !has_only(bucket, b".-") || !is_prefix {
            return Some(format!(
                "segments is {address:?}; it must be an address such as s3://bucket/prefix, with the name of a bucket, and a \
                 prefix of letters, digits and / . _ -"
            ));
        }
        let is_endpoint = |url: &String| {
            ["http://", "https://"].iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|host| !host.is_empty()))
        };
        (!self.segments_endpoint.as_ref().is_none_or(is_endpoint))
            .then(|| "segments_endpoint must be an address such as http://127.0.0.1:9000".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(segments: Option<&str>, endpoint: Option<&str>) -> Option<String> {
        let mut config = Config::new("/s".into(), "/c".into());
        config.segments = segments.map(str::to_owned);
        config.segments_endpoint = endpoint.map(str::to_owned);
        config.store_error()
    }

    #[test]
    fn a_store_needs_an_address_and_a_build_that_has_it() {
        assert_eq!(fault(None, None), None);
        assert!(fault(None, Some("http://a")).unwrap().contains("segments_endpoint requires segments"));
        if !cfg!(feature = "cluster") {
            return assert!(fault(Some("s3://bucket"), None).unwrap().contains("--features cluster"));
        }
        for address in ["s3://bucket", "s3://bucket/", "s3://my.bucket-1/tv/Segments_2"] {
            assert_eq!(fault(Some(address), Some("https://s3.example")), None, "{address}");
        }
        for address in
            ["bucket", "s3://", "s3://ab", "s3://Bucket", "s3://bucket/a b", "s3://bucket/../x", "http://bucket"]
        {
            assert!(fault(Some(address), None).unwrap().contains("s3://bucket/prefix"), "{address}");
        }
        assert!(fault(Some("s3://bucket"), Some("s3.example")).unwrap().contains("http://127.0.0.1:9000"));
    }
}
