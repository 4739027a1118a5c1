//! Accounts over HTTP: set-up, sign-in, devices, users.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::answer::{refused, success};
use crate::kit::{self, Server};

async fn as_anybody(server: &Server, path: &str, body: Value) -> reqwest::Response {
    server.ask(Method::POST, path).json(&body).send().await.unwrap()
}

async fn as_holder(server: &Server, method: Method, path: &str, token: &str) -> reqwest::Response {
    server.ask(method, path).bearer_auth(token).send().await.unwrap()
}

fn token(answer: &Value) -> String {
    answer["token"].as_str().expect("a token").to_owned()
}

#[tokio::test]
async fn from_an_empty_server_to_a_household() {
    let server = kit::unclaimed(&[], |_| ()).await;
    let code = server.service.accounts.prepare().await.unwrap().expect("a set-up code");
    let status = async || success(server.ask(Method::GET, "/api/auth/status").send().await.unwrap(), 200).await;
    assert_eq!(status().await, json!({"setupRequired": true}));
    let set_up = |code: &str| json!({"code": code, "username": "Ada", "password": "correct horse"});
    refused(as_anybody(&server, "/api/auth/setup", set_up("aaaaa-bbbbb")).await, 401, "INVALID_CREDENTIALS").await;
    let made = success(as_anybody(&server, "/api/auth/setup", set_up(&code)).await, 200).await;
    assert_eq!(
        (&made["tokenType"], &made["user"]["username"], &made["user"]["role"]),
        (&json!("Bearer"), &json!("Ada"), &json!("admin"))
    );
    assert_eq!(status().await, json!({"setupRequired": false}));
    refused(as_anybody(&server, "/api/auth/setup", set_up(&code)).await, 409, "CONFLICT").await;
    let admin = token(&made);

    let bob = json!({"username": "bob", "password": "battery staple"});
    let add = async |body: &Value| {
        server.ask(Method::POST, "/api/users").bearer_auth(&admin).json(body).send().await.unwrap()
    };
    let bob = success(add(&bob).await, 201).await;
    assert_eq!(bob["user"]["role"], "user");
    let taken = refused(add(&json!({"username": "BOB", "password": "battery staple"})).await, 409, "CONFLICT").await;
    assert_eq!(taken["details"]["field"], "username");
    refused(add(&json!({"username": "eve", "password": "short"})).await, 400, "VALIDATION_ERROR").await;
    refused(
        add(&json!({"username": "eve", "password": "battery staple", "role": "root"})).await,
        400,
        "VALIDATION_ERROR",
    )
    .await;

    let login = json!({"username": "bob", "password": "battery staple", "deviceName": "Living room TV"});
    let signed_in = success(as_anybody(&server, "/api/auth/login", login).await, 200).await;
    let expires = signed_in["expiresAt"].as_str().unwrap();
    assert!(expires.len() == 24 && expires.ends_with('Z'), "{expires}");
    let tv = token(&signed_in);
    refused(as_holder(&server, Method::GET, "/api/users", &tv).await, 403, "FORBIDDEN").await;
    let me = success(as_holder(&server, Method::GET, "/api/auth/me", &tv).await, 200).await;
    assert_eq!((&me["user"], &me["session"]["deviceName"]), (&bob["user"], &json!("Living room TV")));

    let users = success(as_holder(&server, Method::GET, "/api/users", &admin).await, 200).await;
    assert_eq!(users["users"].as_array().unwrap().len(), 2);
    let (ada_path, bob_path) = (
        format!("/api/users/{}", made["user"]["id"].as_str().unwrap()),
        format!("/api/users/{}", bob["user"]["id"].as_str().unwrap()),
    );
    refused(as_holder(&server, Method::DELETE, &ada_path, &admin).await, 409, "CONFLICT").await;
    assert_eq!(as_holder(&server, Method::DELETE, &bob_path, &admin).await.status(), 204);
    refused(as_holder(&server, Method::GET, "/api/auth/me", &tv).await, 401, "UNAUTHORIZED").await;
    refused(as_holder(&server, Method::DELETE, &bob_path, &admin).await, 404, "NOT_FOUND").await;
}

#[tokio::test]
async fn devices_are_listed_and_revoked_one_by_one() {
    let server = kit::server(&[]).await;
    server.service.accounts.add_user("ada", hearthcast::domain::access::Role::User, "correct horse").await.unwrap();
    let mut tokens = Vec::new();
    for device in ["tv", "phone", "laptop"] {
        let login = json!({"username": "ada", "password": "correct horse", "deviceName": device});
        tokens.push(token(&success(as_anybody(&server, "/api/auth/login", login).await, 200).await));
    }
    let [tv, phone, laptop] = tokens.as_slice() else { panic!("three devices") };
    let list =
        async |token: &str| success(as_holder(&server, Method::GET, "/api/auth/sessions", token).await, 200).await;
    let listed = list(tv).await;
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 3);
    assert!(!listed.to_string().contains("hc_"), "tokens are shown once");
    assert_eq!(sessions.iter().filter(|session| session["current"] == true).count(), 1);
    let phone_id = sessions.iter().find(|session| session["deviceName"] == "phone").unwrap()["id"].as_str().unwrap();
    let path = format!("/api/auth/sessions/{phone_id}");
    refused(as_holder(&server, Method::DELETE, &path, &server.token).await, 404, "NOT_FOUND").await;
    assert_eq!(as_holder(&server, Method::DELETE, &path, tv).await.status(), 204);
    refused(as_holder(&server, Method::GET, "/api/auth/me", phone).await, 401, "UNAUTHORIZED").await;
    refused(as_holder(&server, Method::DELETE, &path, tv).await, 404, "NOT_FOUND").await;

    let revoked = success(as_holder(&server, Method::DELETE, "/api/auth/sessions", tv).await, 200).await;
    assert_eq!(revoked, json!({"revoked": 1}));
    refused(as_holder(&server, Method::GET, "/api/auth/me", laptop).await, 401, "UNAUTHORIZED").await;
    assert_eq!(as_holder(&server, Method::POST, "/api/auth/logout", tv).await.status(), 204);
    refused(as_holder(&server, Method::POST, "/api/auth/logout", tv).await, 401, "UNAUTHORIZED").await;
}

#[tokio::test]
async fn a_changed_password_signs_the_others_out() {
    let server = kit::server(&[]).await;
    server.service.accounts.add_user("ada", hearthcast::domain::access::Role::User, "correct horse").await.unwrap();
    let login = json!({"username": "ada", "password": "correct horse"});
    let here = token(&success(as_anybody(&server, "/api/auth/login", login.clone()).await, 200).await);
    let there = token(&success(as_anybody(&server, "/api/auth/login", login.clone()).await, 200).await);
    let change = async |current: &str, new: &str| {
        let body = json!({"currentPassword": current, "newPassword": new});
        server.ask(Method::POST, "/api/auth/password").bearer_auth(&here).json(&body).send().await.unwrap()
    };
    refused(change("guess", "battery staple").await, 401, "INVALID_CREDENTIALS").await;
    let short = refused(change("correct horse", "short").await, 400, "VALIDATION_ERROR").await;
    assert_eq!(short["details"]["fields"][0]["field"], "newPassword");
    assert_eq!(change("correct horse", "battery staple").await.status(), 204);
    refused(as_holder(&server, Method::GET, "/api/auth/me", &there).await, 401, "UNAUTHORIZED").await;
    assert_eq!(as_holder(&server, Method::GET, "/api/auth/me", &here).await.status(), 200);
    refused(as_anybody(&server, "/api/auth/login", login).await, 401, "INVALID_CREDENTIALS").await;
}

#[tokio::test]
async fn guessing_is_slowed_and_ends_and_old_tokens_are_called_expired() {
    let server = kit::server_with(&[], |config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]).await;
    server.service.accounts.add_user("ada", hearthcast::domain::access::Role::User, "correct horse").await.unwrap();
    server.service.clock.advance(Duration::ZERO);
    let login = async |password: &str, from: &str| {
        let body = json!({"username": "ada", "password": password});
        let request =
            server.ask(Method::POST, "/api/auth/login").header("x-forwarded-for", format!("10.0.0.1, {from}"));
        request.json(&body).send().await.unwrap()
    };
    let mut wrong = Vec::new();
    for _ in 0..5 {
        wrong.push(refused(login("guess", "203.0.113.9").await, 401, "INVALID_CREDENTIALS").await["error"].clone());
    }
    let nobody = json!({"username": "nobody", "password": "guess"});
    let unknown = refused(as_anybody(&server, "/api/auth/login", nobody).await, 401, "INVALID_CREDENTIALS").await;
    assert_eq!(unknown["error"], wrong[0], "an unknown user name gets the same answer");

    let answer = login("correct horse", "203.0.113.9").await;
    assert_eq!(answer.headers()["retry-after"], "12");
    refused(answer, 429, "RATE_LIMITED").await;
    server.service.clock.advance(Duration::from_secs(12));
    let token = token(&success(login("correct horse", "203.0.113.9").await, 200).await);

    assert_eq!(as_holder(&server, Method::GET, "/api/auth/me", &token).await.status(), 200);
    server.service.clock.advance(Duration::from_secs(31 * 86_400));
    refused(as_holder(&server, Method::GET, "/api/auth/me", &token).await, 401, "TOKEN_EXPIRED").await;

    // A proxy appends its own header line; what the client sent before it is not trusted.
    let mut sprayed = Vec::new();
    for number in 0..6 {
        let request = server.ask(Method::POST, "/api/auth/login").header("x-forwarded-for", format!("10.9.8.{number}"));
        let body = json!({"username": format!("nobody{number}"), "password": "guess"});
        let answer = request.header("x-forwarded-for", "198.51.100.7").json(&body).send().await.unwrap();
        sprayed.push(answer.status().as_u16());
    }
    assert_eq!(sprayed, [401, 401, 401, 401, 401, 429]);
}

#[tokio::test]
async fn admins_see_and_end_everybodys_stream_tokens() {
    let server = kit::server(&[]).await;
    let viewer = server.service.accounts.user_by_name("viewer").unwrap().id;
    let tokens = format!("/api/users/{viewer}/tokens");
    let make = async || {
        let made = server.post("/api/livetv/tokens", &json!({"name": "Kodi"})).send().await.unwrap();
        let made = success(made, 201).await;
        (made["secret"].as_str().unwrap().to_owned(), made["token"]["id"].as_str().unwrap().to_owned())
    };
    let plays = async |secret: &str| {
        server.ask(Method::GET, &format!("/api/livetv/m3u?token={secret}")).send().await.unwrap().status().as_u16()
    };
    let as_admin = async |method: Method, path: &str| as_holder(&server, method, path, &server.admin).await;
    let counted = async || {
        let users = success(as_admin(Method::GET, "/api/users").await, 200).await["users"].clone();
        let of = |name: &str| users.as_array().unwrap().iter().find(|user| user["username"] == name).unwrap().clone();
        (of("viewer")["streamTokens"].clone(), of("keeper")["streamTokens"].clone())
    };

    let (secret, id) = make().await;
    assert_eq!(counted().await, (json!(1), json!(0)));
    let listed = success(as_admin(Method::GET, &tokens).await, 200).await;
    assert_eq!((&listed["tokens"][0]["id"], &listed["tokens"][0]["name"]), (&json!(id), &json!("Kodi")));
    assert!(!listed.to_string().contains(&secret), "secrets are shown once");
    let token = format!("{tokens}/{id}");
    refused(as_holder(&server, Method::GET, &tokens, &server.token).await, 403, "FORBIDDEN").await;
    refused(as_holder(&server, Method::DELETE, &token, &server.token).await, 403, "FORBIDDEN").await;
    refused(as_admin(Method::GET, "/api/users/u_nobody/tokens").await, 404, "NOT_FOUND").await;
    refused(as_admin(Method::DELETE, &format!("/api/users/u_nobody/tokens/{id}")).await, 404, "NOT_FOUND").await;
    assert_eq!(plays(&secret).await, 200);
    assert_eq!(success(as_admin(Method::DELETE, &token).await, 200).await, json!({"id": id, "deleted": true}));
    assert_eq!(plays(&secret).await, 401);
    refused(as_admin(Method::DELETE, &token).await, 404, "NOT_FOUND").await;

    let (secret, _) = make().await;
    for (kept, status) in [(json!(true), 200), (Value::Null, 401)] {
        let body = json!({"newPassword": "battery staple", "keepStreamTokens": kept});
        let path = format!("/api/users/{viewer}/password");
        let reset = server.ask(Method::POST, &path).bearer_auth(&server.admin).json(&body).send().await.unwrap();
        assert_eq!((reset.status().as_u16(), plays(&secret).await), (204, status));
    }
    assert_eq!(counted().await, (json!(0), json!(0)));
}
