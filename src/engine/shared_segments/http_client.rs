//! The HTTP client of the segment store: the one that this program has already, for `object_store`.

use std::pin::Pin;
use std::time::Duration;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use reqwest::redirect::Policy;
use reqwest::{Body, Client, Request, Url};

use super::MAX_OBJECT_BYTES;

/// Time for a connection. The requests have their own limits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Idle connections that stay open.
const MAX_IDLE_CONNECTIONS: usize = 8;

/// Makes clients without proxies and redirects.
#[derive(Debug)]
pub(super) struct StoreConnector;

impl HttpConnector for StoreConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .pool_idle_timeout(Duration::from_secs(30))
            .user_agent(concat!("Hearthcast/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = client.map_err(|fault| object_store::Error::Generic { store: "S3", source: Box::new(fault) })?;
        Ok(HttpClient::new(StoreClient(client)))
    }
}

#[derive(Debug)]
struct StoreClient(Client);

impl HttpService for StoreClient {
    /// The signature is the one that `#[async_trait]` gives the trait.
    fn call<'client, 'call>(
        &'client self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'call>>
    where
        'client: 'call,
        Self: 'call,
    {
        Box::pin(self.send(request))
    }
}

impl StoreClient {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string()).map_err(|fault| HttpError::new(HttpErrorKind::Unknown, fault))?;
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(match body.as_bytes() {
            Some(bytes) => bytes.clone().into(),
            None => Body::wrap(body),
        });
        let mut response = self.0.execute(request).await.map_err(http_error)?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(http_error)? {
            if bytes.len() + chunk.len() > MAX_OBJECT_BYTES {
                let fault = format!("the answer has more than {MAX_OBJECT_BYTES} bytes");
                return Err(HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(fault)));
            }
            bytes.extend_from_slice(&chunk);
        }
        let mut response = HttpResponse::new(bytes.into());
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        Ok(response)
    }
}

fn http_error(fault: reqwest::Error) -> HttpError {
    let kind = match () {
        () if fault.is_connect() => HttpErrorKind::Connect,
        () if fault.is_timeout() => HttpErrorKind::Timeout,
        () => HttpErrorKind::Request,
    };
    // Without the address, which is long and the same in each error of an object.
    HttpError::new(kind, fault.without_url())
}
