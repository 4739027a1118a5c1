//! The accept loop: warp's routes behind hyper, with TCP_NODELAY and a request id on every answer.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use http::HeaderValue;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use super::body::Outgoing;
use super::call::Context;
use crate::service::Service;
use crate::service::accounts::random;

/// Serves until `stop` resolves.
pub async fn serve(service: Arc<Service>, listener: TcpListener, stop: impl Future<Output = ()>) {
    let routes = TowerToHyperService::new(warp::service(super::routes(&service)));
    tokio::pin!(stop);
    loop {
        let (socket, remote) = tokio::select! {
            () = &mut stop => return,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(cause) => {
                    tracing::warn!(%cause, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let _ = socket.set_nodelay(true);
        let routes = routes.clone();
        let answer = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            let request_id: Arc<str> = BASE64URL_NOPAD.encode(&random::<12>()).into();
            request.extensions_mut().insert(Context { request_id: request_id.clone(), remote: remote.ip() });
            let answer = routes.call(request);
            async move {
                let mut response = answer.await?;
                if let Ok(id) = HeaderValue::from_str(&request_id) {
                    response.headers_mut().insert("x-request-id", id);
                }
                Ok::<_, Infallible>(Outgoing::of(response))
            }
        });
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(15))
                .serve_connection(TokioIo::new(socket), answer);
            if let Err(cause) = connection.await {
                tracing::debug!(%cause, "connection ended");
            }
        });
    }
}
