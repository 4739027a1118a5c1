//! A bucket of an S3-compatible store, through the crate `object_store`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, Attributes, Error, GetOptions, ObjectStore, PutOptions, PutPayload, RetryConfig,
};

use super::credentials::Credentials;
use super::http_client::StoreConnector;
use super::{MAX_OBJECT_BYTES, ObjectBucket, SegmentObject};
use crate::config::Config;

/// The user metadata that has the BLAKE3 of an object. S3 sends it as `x-amz-meta-hearthcast-blake3`.
const DIGEST_METADATA: &str = "hearthcast-blake3";

/// The region that servers other than those of AWS accept.
const DEFAULT_REGION: &str = "us-east-1";

/// Longest text of an error, characters.
const MAX_FAULT_CHARS: usize = 300;

/// Time for the check of `hearthcast doctor`.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Objects of the check, below the prefix.
const CHECK_PATH: &str = "check/written-by-doctor.ts";
const MISSING_PATH: &str = "check/never-written.ts";

/// A part of a bucket: what is below a prefix.
#[derive(Clone, Debug)]
pub struct S3Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl S3Bucket {
    /// The bucket of `segments`; None without that setting. Nothing is sent.
    ///
    /// # Errors
    /// Credentials are missing, or the settings do not fit together.
    pub fn open(config: &Config) -> Result<Option<Self>, String> {
        let Some((bucket, prefix)) = config.segments.as_deref().and_then(split_address) else { return Ok(None) };
        let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let credentials = Credentials::load(config.segments_credentials_file.as_deref(), environment)?;
        let region = config.segments_region.clone().or_else(|| environment("AWS_REGION"));
        let region = region.or_else(|| environment("AWS_DEFAULT_REGION")).unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let mut builder = AmazonS3Builder::new()
            .with_http_connector(StoreConnector)
            .with_bucket_name(bucket)
            .with_region(region)
            .with_access_key_id(credentials.access_key_id)
            .with_secret_access_key(credentials.secret_access_key)
            // A segment can be made in the time of a second attempt.
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
        if let Some(token) = credentials.session_token {
            builder = builder.with_token(token);
        }
        if let Some(endpoint) = &config.segments_endpoint {
            builder = builder.with_allow_http(endpoint.starts_with("http://")).with_endpoint(endpoint.clone());
        }
        let store = builder.build().map_err(|fault| format!("segments: {fault}"))?;
        Ok(Some(Self::over(Arc::new(store), prefix)))
    }

    /// The objects of `store` below `prefix`.
    pub fn over(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self { store, prefix: Path::from(prefix) }
    }

    /// Writes an object, reads it, and reads one that is missing, as the server does.
    ///
    /// # Errors
    /// The step that failed, for people.
    pub async fn check(&self) -> Result<(), String> {
        let object = SegmentObject::new("written by hearthcast doctor".into(), "video/mp2t");
        let check = async {
            self.put(CHECK_PATH, object.clone()).await.map_err(|fault| format!("it cannot be written to: {fault}"))?;
            let found = self.get(CHECK_PATH).await.map_err(|fault| format!("it cannot be read: {fault}"))?;
            let found = found.ok_or("an object that was written is missing")?;
            if found.bytes != object.bytes || found.digest != object.digest {
                return Err("it does not keep an object with its metadata".to_owned());
            }
            match self.get(MISSING_PATH).await {
                Ok(_) => Ok(()),
                Err(fault) => Err(format!(
                    "a missing object is answered with an error instead of 404, so allow s3:ListBucket too: {fault}"
                )),
            }
        };
        let timed_out = |_| Err(format!("it does not answer within {} s", CHECK_TIMEOUT.as_secs()));
        tokio::time::timeout(CHECK_TIMEOUT, check).await.unwrap_or_else(timed_out)
    }

    fn path(&self, path: &str) -> Path {
        Path::from(format!("{}/{path}", self.prefix))
    }
}

impl ObjectBucket for S3Bucket {
    fn get(&self, path: &str) -> BoxFuture<'static, Result<Option<SegmentObject>, String>> {
        let (store, path) = (self.store.clone(), self.path(path));
        Box::pin(async move {
            let found = match store.get_opts(&path, GetOptions::default()).await {
                Ok(found) => found,
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(fault) => return Err(fault_text(&fault)),
            };
            if found.meta.size > MAX_OBJECT_BYTES as u64 {
                return Err(format!("{path} has {} bytes; {MAX_OBJECT_BYTES} are allowed", found.meta.size));
            }
            let digest = found.attributes.get(&Attribute::Metadata(DIGEST_METADATA.into()));
            let digest = digest.map_or(String::new(), |value| value.as_ref().to_owned());
            let bytes = found.bytes().await.map_err(|fault| fault_text(&fault))?;
            Ok(Some(SegmentObject { bytes, digest, content_type: "" }))
        })
    }

    fn put(&self, path: &str, object: SegmentObject) -> BoxFuture<'static, Result<(), String>> {
        let (store, path) = (self.store.clone(), self.path(path));
        Box::pin(async move {
            let attributes = Attributes::from_iter([
                (Attribute::ContentType, AttributeValue::from(object.content_type)),
                (Attribute::Metadata(DIGEST_METADATA.into()), AttributeValue::from(object.digest)),
            ]);
            let options = PutOptions { attributes, ..PutOptions::default() };
            let written = store.put_opts(&path, PutPayload::from_bytes(object.bytes), options).await;
            written.map(|_| ()).map_err(|fault| fault_text(&fault))
        })
    }
}

/// An error as one short line: it may contain the answer of the server.
fn fault_text(fault: &Error) -> String {
    fault.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_FAULT_CHARS).collect()
}

/// Bucket and prefix of an address such as `s3://bucket/prefix`.
fn split_address(address: &str) -> Option<(&str, &str)> {
    let rest = address.strip_prefix("s3://")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    Some((bucket, prefix.trim_matches('/')))
}
