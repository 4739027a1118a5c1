//! The household over HTTP: pictures, PINs, and another user on the same device.

use hearthcast::domain::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit;
use crate::kit::response::{expect_error, expect_success};

#[tokio::test]
async fn a_device_changes_to_a_member_and_links_of_the_former_one_end() {
    let server = kit::start_server(&[]).await;
    let accounts = &server.service.accounts;
    let kid = accounts.add_user(None, "kid", Role::User, "correct horse").await.unwrap();
    let send = async |method: Method, path: &str, token: &str, body: Value| {
        server.request(method, path).bearer_auth(token).json(&body).send().await.unwrap()
    };
    let picture = json!({"colour": "teal", "symbol": "cat"});
    let own_path = "/api/household/me";
    let own = send(Method::PATCH, own_path, &server.token, json!({"picture": picture})).await;
    assert_eq!(
        expect_success(own, 200).await,
        json!({"picture": picture, "hasPin": false, "isOpen": false, "folders": null})
    );
    for (body, field) in [
        (json!({"picture": {"colour": "mauve", "symbol": null}}), "picture.colour"),
        (json!({"picture": {"colour": "red", "symbol": "skull"}}), "picture.symbol"),
    ] {
        let answer = send(Method::PATCH, own_path, &server.token, body).await;
        let refused = expect_error(answer, 400, "VALIDATION_ERROR").await;
        assert_eq!(refused["details"]["fields"][0]["field"], field);
    }
    let without_password = send(Method::PATCH, own_path, &server.token, json!({"pin": "2468"})).await;
    expect_error(without_password, 401, "INVALID_CREDENTIALS").await;

    let of_kid = format!("/api/users/{}", kid.id);
    expect_error(send(Method::PATCH, &of_kid, &server.token, json!({"pin": "2468"})).await, 403, "FORBIDDEN").await;
    let short = send(Method::PATCH, &of_kid, &server.admin, json!({"pin": "12"})).await;
    expect_error(short, 400, "VALIDATION_ERROR").await;
    let changed = send(Method::PATCH, &of_kid, &server.admin, json!({"pin": "2468", "picture": picture})).await;
    let changed = expect_success(changed, 200).await;
    assert_eq!((&changed["user"]["member"]["hasPin"], changed.to_string().contains("argon2")), (&json!(true), false));

    let household = expect_success(server.get("/api/household").send().await.unwrap(), 200).await;
    let members: Vec<_> = household["members"].as_array().unwrap().iter().map(|one| &one["needs"]).collect();
    assert_eq!(members, ["pin", "password"], "{household}");
    let wrong =
        send(Method::POST, "/api/household/user", &server.token, json!({"userId": kid.id, "pin": "0000"})).await;
    let wrong = expect_error(wrong, 401, "INVALID_CREDENTIALS").await;
    assert_eq!(wrong["details"]["needs"], "pin");
    let body = json!({"userId": kid.id, "pin": "2468"});
    let answer = expect_success(send(Method::POST, "/api/household/user", &server.token, body).await, 200).await;
    assert_eq!(answer["user"]["username"], "kid");
    expect_error(server.get("/api/auth/me").send().await.unwrap(), 401, "UNAUTHORIZED").await;
    let me = server.request(Method::GET, "/api/auth/me").bearer_auth(answer["token"].as_str().unwrap());
    let me = expect_success(me.send().await.unwrap(), 200).await;
    assert_eq!(me["user"]["member"]["picture"], picture);
}

#[tokio::test]
async fn another_role_and_name_count_for_the_next_request_of_a_device() {
    let server = kit::start_server(&[]).await;
    let accounts = &server.service.accounts;
    let kid = accounts.add_user(None, "kid", Role::User, "correct horse").await.unwrap();
    let token = accounts.issue_token("kid", Role::User).await.unwrap();
    let of_kid = format!("/api/users/{}", kid.id);
    let change = async |path: &str, token: &str, body: Value| {
        server.request(Method::PATCH, path).bearer_auth(token).json(&body).send().await.unwrap()
    };
    let users = async || server.request(Method::GET, "/api/users").bearer_auth(&token).send().await.unwrap();
    expect_error(users().await, 403, "FORBIDDEN").await;
    let own_role = change("/api/household/me", &token, json!({"role": "admin"})).await;
    expect_error(own_role, 400, "VALIDATION_ERROR").await;
    expect_error(change(&of_kid, &token, json!({"role": "admin"})).await, 403, "FORBIDDEN").await;

    let changed = change(&of_kid, &server.admin, json!({"role": "admin", "username": "Eve"})).await;
    let changed = expect_success(changed, 200).await;
    assert_eq!((&changed["user"]["role"], &changed["user"]["username"]), (&json!("admin"), &json!("Eve")));
    let listed = expect_success(users().await, 200).await;
    let admin = listed["users"]
        .as_array()
        .unwrap()
        .iter()
        .find(|user| user["username"] != "Eve" && user["role"] == "admin")
        .unwrap();
    let name_in_use = change(&of_kid, &server.admin, json!({"username": admin["username"]})).await;
    expect_error(name_in_use, 409, "CONFLICT").await;
    let unknown = change(&of_kid, &server.admin, json!({"role": "owner"})).await;
    expect_error(unknown, 400, "VALIDATION_ERROR").await;

    let of_admin = format!("/api/users/{}", admin["id"].as_str().unwrap());
    expect_success(change(&of_admin, &token, json!({"role": "user"})).await, 200).await;
    expect_error(change(&of_kid, &server.admin, json!({"role": "user"})).await, 403, "FORBIDDEN").await;
    let last = expect_error(change(&of_kid, &token, json!({"role": "user"})).await, 409, "CONFLICT").await;
    assert!(last["error"].as_str().unwrap().contains("last admin"), "{last}");
}
