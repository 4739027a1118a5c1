//! Errors are answers of one shape.

use crate::kit;

#[tokio::test]
async fn unknown_routes_and_methods_answer_in_the_one_shape() {
    let server = kit::server(&[]).await;
    let answer = server.get("/api/nowhere").send().await.unwrap();
    assert_eq!(answer.status(), 404);
    let body: serde_json::Value = answer.json().await.unwrap();
    assert_eq!(body["code"], "NOT_FOUND");
    assert!(body["error"].is_string() && body["requestId"].is_string());

    let answer = server.post("/api/health", &serde_json::json!({})).send().await.unwrap();
    assert_eq!(answer.status(), 405);
    assert_eq!(answer.headers()["allow"], "GET, HEAD, OPTIONS");
}
