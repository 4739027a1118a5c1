//! `GET /api/server/status`: samples of the last half hour, for admins.

use reqwest::Method;
use serde_json::Value;

use crate::kit::response::expect_error;
use crate::kit::{self, Server};

async fn status(server: &Server, query: &str) -> Value {
    let request = server.request(Method::GET, &format!("/api/server/status{query}")).bearer_auth(&server.admin);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

/// The samples of a series, by its name.
fn samples<'a>(status: &'a Value, name: &str) -> &'a [Value] {
    status["series"][name].as_array().unwrap_or_else(|| panic!("no series {name}: {status}"))
}

#[tokio::test]
async fn admins_see_samples_and_what_was_added_after_one() {
    let server = kit::start_server(&[]).await;
    let empty = status(&server, "").await;
    assert_eq!((empty["lastNumber"].as_u64(), samples(&empty, "sessions").len()), (Some(0), 0));
    server.service.sample_status();
    for _ in 0..20 {
        server.get("/api/livetv/channels").send().await.unwrap().text().await.unwrap();
    }
    server.service.sample_status();
    let all = status(&server, "").await;
    assert_eq!(all["lastNumber"], 2);
    for (name, series) in all["series"].as_object().unwrap() {
        assert_eq!(series.as_array().map(Vec::len), Some(2), "{name}");
    }
    let newest = |name: &str| samples(&all, name)[1].as_f64().unwrap_or_else(|| panic!("{name}: {all}"));
    assert!(newest("requestsPerSecond") > 0.0 && newest("sentBytesPerSecond") > 20.0);
    assert!(newest("memoryBytes") > 1e6 && newest("openDescriptors") > 3.0);
    // The set-up wrote accounts.
    assert!(samples(&all, "commitSeconds")[0].is_number(), "{all}");
    assert!(samples(&all, "zapSeconds").iter().all(Value::is_null), "{all}");
    assert_eq!(
        samples(&status(&server, "?after=1").await, "requestsPerSecond"),
        &samples(&all, "requestsPerSecond")[1..]
    );
    assert!(samples(&status(&server, "?after=2").await, "sessions").is_empty());
    assert_eq!(samples(&status(&server, "?after=9").await, "sessions").len(), 2, "a number from before a restart");
    expect_error(server.get("/api/server/status").send().await.unwrap(), 403, "FORBIDDEN").await;
}
