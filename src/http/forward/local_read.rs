//! Reads that a standby answers itself: the bytes of media files.

use std::sync::Arc;

use http::Method;
use warp::reply::Response;

use crate::domain::access::Principal;
use crate::error::{Code, Error, Result};
use crate::http::api::file::{self, FileRequest};
use crate::http::call::Call;
use crate::http::decode::parse_query;
use crate::http::dispatch::RequestParts;
use crate::http::endpoint::authenticate_bearer;
use crate::http::server::RequestBody;
use crate::service::accounts::Accounts;
use crate::service::read_replica::ReadReplica;

/// Whether a standby may answer requests for this path, which is without the prefix of `public_base_url`.
pub fn is_local(method: &Method, path: &str) -> bool {
    path == file::PATH && (method == Method::GET || method == Method::HEAD)
}

/// Authenticates a request that [`is_local`], as the routing table does.
///
/// # Errors
/// Why this server cannot answer it: the active server decides then.
pub fn admit(replica: &ReadReplica, request: &RequestParts) -> Result<Call> {
    let mut call = Call {
        info: request.info.clone(),
        method: request.method.clone(),
        params: Vec::new(),
        headers: request.headers.clone(),
        principal: None,
        query: parse_query(&request.query)?,
        body: RequestBody::empty(),
        body_limit: 0,
    };
    call.principal = Some(authenticate(&replica.accounts, &call)?);
    request.slot.mark_authenticated();
    Ok(call)
}

fn authenticate(accounts: &Accounts, call: &Call) -> Result<Arc<Principal>> {
    if let Some(principal) = authenticate_bearer(accounts, call)? {
        return match accounts.is_use_stored(&principal.login_id) {
            true => Ok(principal),
            false => Err(Error::new(Code::ServerBusy, "the active server must notice the use of this login")),
        };
    }
    let missing = || Error::new(Code::Unauthorized, "a bearer token is required");
    let (grant, resource) = (call.query("st").ok_or_else(missing)?, file::grant_resource(call).ok_or_else(missing)?);
    accounts.redeem(&resource, grant)
}

/// The response to an admitted request.
///
/// # Errors
/// As [`admit`].
pub async fn answer(replica: &ReadReplica, call: Call) -> Result<Response> {
    let request = FileRequest { method: &call.method, headers: &call.headers };
    file::respond(&replica.library, &call.user()?.visibility, call.media_path()?, request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::endpoints;

    #[test]
    fn local_reads_have_the_path_of_their_route() {
        let is_route = |endpoint: &crate::http::endpoint::Endpoint| is_local(&endpoint.method, endpoint.path);
        assert_eq!(endpoints().iter().filter(|endpoint| is_route(endpoint)).count(), 1);
        assert!(is_local(&Method::HEAD, file::PATH) && !is_local(&Method::POST, file::PATH));
    }
}
