//! `GET /api/openapi.json`: the description of the HTTP API (OpenAPI 3.1).
//!
//! Each mounted handler brings its description (`#[utoipa::path]`). Parts common to all of them (errors, credentials,
//! names) are added here; the access class is that of the endpoint. Tests compare the schemas with real responses.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use utoipa::{OpenApi, ToSchema};
use warp::reply::Response;

use super::call::Call;
use super::reply;
use super::urls::ResourceUrls;
use crate::domain::access::Access;
use crate::error::{Code, Error, Result};
use crate::service::Service;

#[derive(OpenApi)]
#[openapi(components(schemas(ErrorBody)))]
struct CommonParts;

/// The body of every error response.
#[derive(ToSchema)]
#[allow(dead_code, reason = "documentation only: `reply::error` builds the real body")]
#[schema(as = Error)]
struct ErrorBody {
    /// For people: lower case, specific.
    error: String,
    /// For programs: one value of a fixed list.
    code: String,
    /// Details in addition to the code.
    details: Option<Value>,
    /// The `X-Request-Id` of this response, also in the log.
    #[schema(rename = "requestId")]
    request_id: String,
}

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let endpoints = super::endpoints();
    let mut document = CommonParts::openapi();
    for part in endpoints.iter().filter_map(|endpoint| endpoint.document) {
        document.merge(part());
    }
    let mut document = serde_json::to_value(document).expect("the description is plain data");
    add_common_parts(&mut document);
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.document.is_some()) {
        let method = endpoint.method.as_str().to_lowercase();
        let operation = document["paths"][endpoint.path][&method].as_object_mut().expect("it was merged above");
        complete_operation(endpoint.access, &method, endpoint.path, operation);
    }
    document
});

static TEXT: LazyLock<String> =
    LazyLock::new(|| serde_json::to_string_pretty(&*DOCUMENT).expect("the description is plain data"));

/// The OpenAPI document
#[utoipa::path(get, path = "/api/openapi.json", responses(
    (status = 200, description = "An OpenAPI 3.1 document", body = Value, content_type = "application/json")))]
pub async fn openapi(service: Arc<Service>, _: Call) -> Result<Response> {
    let prefix = ResourceUrls::from_config(&service.config).prefix();
    if prefix.is_empty() {
        return Ok(reply::bytes("application/json", Bytes::from_static(text().as_bytes())));
    }
    let mut document = document().clone();
    document["servers"] = json!([{"url": prefix}]);
    let text = serde_json::to_vec_pretty(&document).map_err(Error::internal)?;
    Ok(reply::bytes("application/json", text.into()))
}

pub fn document() -> &'static Value {
    &DOCUMENT
}

pub fn text() -> &'static str {
    &TEXT
}

/// Adds the parts that belong to no single operation.
fn add_common_parts(document: &mut Value) {
    document["info"] = json!({
        "title": "Hearthcast",
        "version": env!("CARGO_PKG_VERSION"),
        "description": env!("CARGO_PKG_DESCRIPTION"),
        "license": {"name": "MIT OR Apache-2.0"},
    });
    document["servers"] = json!([{"url": "/"}]);
    document["components"]["securitySchemes"] = json!({
        "bearer": {"type": "http", "scheme": "bearer", "description": "A token of POST /api/auth/login"},
        "grant": {"type": "apiKey", "in": "query", "name": "st", "description": "A signed grant for exactly this resource"},
        "streamToken": {"type": "apiKey", "in": "query", "name": "token", "description": "A stream token, or the token of a signed URL"},
        "expiry": {"type": "apiKey", "in": "query", "name": "exp", "description": "The expiry of a signed URL"},
        "signature": {"type": "apiKey", "in": "query", "name": "sig", "description": "The signature of a signed URL"},
    });
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    document["components"]["schemas"]["Error"]["properties"]["code"]["enum"] = json!(codes);
    add_new_channel_schema(document);
}

/// Gives the operations that create a channel a schema with the fields they require.
fn add_new_channel_schema(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object_mut().expect("there are schemas");
    let requires = |field: &str| json!({"required": [field]});
    schemas.insert(
        "NewChannel".to_owned(),
        json!({
            "description": "A new channel: `name`, and its content (`items`, `schedule` or `source`)",
            "allOf": [
                {"$ref": "#/components/schemas/ChannelRequest"},
                {"required": ["name"], "anyOf": [requires("items"), requires("schedule"), requires("source")]},
            ],
        }),
    );
    for path in ["/api/livetv/channels", "/api/livetv/channels/preview"] {
        document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"] =
            json!({"$ref": "#/components/schemas/NewChannel"});
    }
}

/// Default error responses of an operation, for statuses its handler does not describe.
fn default_errors(access: Access, path: &str, operation: &Map<String, Value>) -> Vec<(&'static str, &'static str)> {
    let mut errors = Vec::new();
    let mut add_if = |applies: bool, status, description| {
        if applies {
            errors.push((status, description));
        }
    };
    let has_body = operation.contains_key("requestBody");
    let takes_input = has_body || operation.contains_key("parameters");
    let (is_user, is_admin) = (access == Access::User, access == Access::Admin);
    let mut parameters = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
    let names_media = parameters.any(|parameter| parameter["name"] == "path");
    let names_resource = path.contains('{') && (is_user || is_admin);
    let is_channel = path.starts_with("/api/livetv/channels");
    add_if(takes_input, "400", "`VALIDATION_ERROR`, `BAD_REQUEST` or `INVALID_PATH`: the request is invalid");
    add_if(
        !matches!(access, Access::Public | Access::Shared),
        "401",
        "`UNAUTHORIZED` or `TOKEN_EXPIRED`: no valid credentials",
    );
    add_if(is_admin, "403", "`FORBIDDEN`: only admins may do this");
    add_if(is_user && names_media, "403", "`FORBIDDEN`: the path is outside the library roots");
    add_if(
        matches!(access, Access::Granted | Access::Live | Access::Shared),
        "403",
        "`SIGNATURE_INVALID` or `SIGNATURE_EXPIRED`",
    );
    add_if(names_resource, "404", if is_channel { "`CHANNEL_NOT_FOUND`" } else { "`NOT_FOUND`" });
    add_if(has_body, "413", "`PAYLOAD_TOO_LARGE`: the body exceeds the size limit");
    add_if(has_body, "415", "`UNSUPPORTED_MEDIA_TYPE`: the body has the wrong content type");
    errors
}

fn complete_operation(access: Access, method: &str, path: &str, operation: &mut Map<String, Value>) {
    operation.insert("operationId".to_owned(), json!(operation_id(method, path)));
    operation.insert("tags".to_owned(), json!([tag(path)]));
    operation.insert(
        "security".to_owned(),
        match access {
            // Credentials in the path: OpenAPI cannot describe them as such.
            Access::Public | Access::Tuner | Access::Shared => json!([]),
            Access::User | Access::Admin | Access::Worker => json!([{"bearer": []}]),
            Access::Granted => json!([{"bearer": []}, {"grant": []}]),
            Access::Live => {
                json!([{"bearer": []}, {"grant": []}, {"streamToken": []}, {"streamToken": [], "expiry": [], "signature": []}])
            }
        },
    );
    let errors = default_errors(access, path, operation);
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut).expect("an operation has responses");
    responses.insert("default".to_owned(), json!({"description": "Error; `code` gives the reason"}));
    for (status, description) in errors {
        responses.entry(status).or_insert_with(|| json!({"description": description}));
    }
    for (status, response) in responses {
        let is_error = status == "default" || status.starts_with(['4', '5']);
        if is_error && response.get("content").is_none() {
            response["content"] = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}});
        }
    }
}

/// The operation's ID, derived from method and path so that it stays stable: `getStreamTranscodeBySessionIdStatus`.
fn operation_id(method: &str, path: &str) -> String {
    let mut id = method.to_owned();
    for part in path.trim_start_matches("/api").split(['/', '.', '-', '_']).filter(|part| !part.is_empty()) {
        let (prefix, part) = part.strip_prefix('{').map_or(("", part), |name| ("By", name.trim_end_matches('}')));
        let mut chars = part.chars();
        id.push_str(prefix);
        id.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        id.push_str(chars.as_str());
    }
    id
}

fn tag(path: &str) -> &'static str {
    let groups = [
        ("/api/auth", "Accounts"),
        ("/api/users", "Accounts"),
        ("/api/library", "Library"),
        ("/api/livetv", "Live TV"),
        ("/hdhr", "Live TV"),
        ("/api/stream", "Streaming"),
    ];
    groups.iter().find(|(prefix, _)| path.starts_with(prefix)).map_or("Server", |(_, tag)| tag)
}
