//! Accounts over HTTP: set-up, sign-in, devices, users.

use std::time::Duration;

use hearthcast::domain::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server};

async fn post_anonymously(server: &Server, path: &str, body: Value) -> reqwest::Response {
    server.request(Method::POST, path).json(&body).send().await.unwrap()
}

async fn send_with_token(server: &Server, method: Method, path: &str, token: &str) -> reqwest::Response {
    server.request(method, path).bearer_auth(token).send().await.unwrap()
}

fn token_of(answer: &Value) -> String {
    answer["token"].as_str().expect("a token").to_owned()
}

#[tokio::test]
async fn from_set_up_to_several_users() {
    let server = kit::start_unclaimed(&[], |_| ()).await;
    let code = server.service.accounts.prepare().await.unwrap().expect("a set-up code");
    let setup_status =
        async || expect_success(server.request(Method::GET, "/api/auth/status").send().await.unwrap(), 200).await;
    assert_eq!(setup_status().await, json!({"setupRequired": true}));
    let set_up = |code: &str| json!({"code": code, "username": "Ada", "password": "correct horse"});
    expect_error(post_anonymously(&server, "/api/auth/setup", set_up("aaaaa-bbbbb")).await, 401, "INVALID_CREDENTIALS")
        .await;
    let setup = expect_success(post_anonymously(&server, "/api/auth/setup", set_up(&code)).await, 200).await;
    assert_eq!(
        (&setup["tokenType"], &setup["user"]["username"], &setup["user"]["role"]),
        (&json!("Bearer"), &json!("Ada"), &json!("admin"))
    );
    assert_eq!(setup_status().await, json!({"setupRequired": false}));
    expect_error(post_anonymously(&server, "/api/auth/setup", set_up(&code)).await, 409, "CONFLICT").await;
    let admin = token_of(&setup);

    let bob = json!({"username": "bob", "password": "battery staple"});
    let add = async |body: &Value| {
        server.request(Method::POST, "/api/users").bearer_auth(&admin).json(body).send().await.unwrap()
    };
    let bob = expect_success(add(&bob).await, 201).await;
    assert_eq!(bob["user"]["role"], "user");
    let conflict =
        expect_error(add(&json!({"username": "BOB", "password": "battery staple"})).await, 409, "CONFLICT").await;
    assert_eq!(conflict["details"]["field"], "username");
    expect_error(add(&json!({"username": "eve", "password": "short"})).await, 400, "VALIDATION_ERROR").await;
    expect_error(
        add(&json!({"username": "eve", "password": "battery staple", "role": "root"})).await,
        400,
        "VALIDATION_ERROR",
    )
    .await;

    let login = json!({"username": "bob", "password": "battery staple", "deviceName": "Living room TV"});
    let signed_in = expect_success(post_anonymously(&server, "/api/auth/login", login).await, 200).await;
    let expires = signed_in["expiresAt"].as_str().unwrap();
    assert!(expires.len() == 24 && expires.ends_with('Z'), "{expires}");
    let tv = token_of(&signed_in);
    expect_error(send_with_token(&server, Method::GET, "/api/users", &tv).await, 403, "FORBIDDEN").await;
    let me = expect_success(send_with_token(&server, Method::GET, "/api/auth/me", &tv).await, 200).await;
    let mut user = me["user"].clone();
    assert_eq!(user["member"].take()["hasPin"], false, "{me}");
    user.as_object_mut().unwrap().remove("member");
    assert_eq!((&user, &me["session"]["deviceName"]), (&bob["user"], &json!("Living room TV")));

    let users = expect_success(send_with_token(&server, Method::GET, "/api/users", &admin).await, 200).await;
    assert_eq!(users["users"].as_array().unwrap().len(), 2);
    let (ada_path, bob_path) = (
        format!("/api/users/{}", setup["user"]["id"].as_str().unwrap()),
        format!("/api/users/{}", bob["user"]["id"].as_str().unwrap()),
    );
    expect_error(send_with_token(&server, Method::DELETE, &ada_path, &admin).await, 409, "CONFLICT").await;
    assert_eq!(send_with_token(&server, Method::DELETE, &bob_path, &admin).await.status(), 204);
    expect_error(send_with_token(&server, Method::GET, "/api/auth/me", &tv).await, 401, "UNAUTHORIZED").await;
    expect_error(send_with_token(&server, Method::DELETE, &bob_path, &admin).await, 404, "NOT_FOUND").await;
}

#[tokio::test]
async fn devices_are_listed_and_revoked_one_by_one() {
    let server = kit::start_server(&[]).await;
    server.service.accounts.add_user(None, "ada", Role::User, "correct horse").await.unwrap();
    let mut tokens = Vec::new();
    for device in ["tv", "phone", "laptop"] {
        let login = json!({"username": "ada", "password": "correct horse", "deviceName": device});
        tokens.push(token_of(&expect_success(post_anonymously(&server, "/api/auth/login", login).await, 200).await));
    }
    let [tv, phone, laptop] = tokens.as_slice() else { panic!("three devices") };
    let list = async |token: &str| {
        expect_success(send_with_token(&server, Method::GET, "/api/auth/sessions", token).await, 200).await
    };
    let listed = list(tv).await;
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 3);
    assert!(!listed.to_string().contains("hc_"), "tokens are shown once");
    assert_eq!(sessions.iter().filter(|session| session["current"] == true).count(), 1);
    let phone_id = sessions.iter().find(|session| session["deviceName"] == "phone").unwrap()["id"].as_str().unwrap();
    let path = format!("/api/auth/sessions/{phone_id}");
    expect_error(send_with_token(&server, Method::DELETE, &path, &server.token).await, 404, "NOT_FOUND").await;
    assert_eq!(send_with_token(&server, Method::DELETE, &path, tv).await.status(), 204);
    expect_error(send_with_token(&server, Method::GET, "/api/auth/me", phone).await, 401, "UNAUTHORIZED").await;
    expect_error(send_with_token(&server, Method::DELETE, &path, tv).await, 404, "NOT_FOUND").await;

    let revoked = expect_success(send_with_token(&server, Method::DELETE, "/api/auth/sessions", tv).await, 200).await;
    assert_eq!(revoked, json!({"revoked": 1}));
    expect_error(send_with_token(&server, Method::GET, "/api/auth/me", laptop).await, 401, "UNAUTHORIZED").await;
    assert_eq!(send_with_token(&server, Method::POST, "/api/auth/logout", tv).await.status(), 204);
    expect_error(send_with_token(&server, Method::POST, "/api/auth/logout", tv).await, 401, "UNAUTHORIZED").await;
}

#[tokio::test]
async fn a_changed_password_signs_the_others_out() {
    let server = kit::start_server(&[]).await;
    server.service.accounts.add_user(None, "ada", Role::User, "correct horse").await.unwrap();
    let login = json!({"username": "ada", "password": "correct horse"});
    let current_token =
        token_of(&expect_success(post_anonymously(&server, "/api/auth/login", login.clone()).await, 200).await);
    let other_token =
        token_of(&expect_success(post_anonymously(&server, "/api/auth/login", login.clone()).await, 200).await);
    let change_password = async |current: &str, new: &str| {
        let body = json!({"currentPassword": current, "newPassword": new});
        server.request(Method::POST, "/api/auth/password").bearer_auth(&current_token).json(&body).send().await.unwrap()
    };
    expect_error(change_password("guess", "battery staple").await, 401, "INVALID_CREDENTIALS").await;
    let short = expect_error(change_password("correct horse", "short").await, 400, "VALIDATION_ERROR").await;
    assert_eq!(short["details"]["fields"][0]["field"], "newPassword");
    assert_eq!(change_password("correct horse", "battery staple").await.status(), 204);
    expect_error(send_with_token(&server, Method::GET, "/api/auth/me", &other_token).await, 401, "UNAUTHORIZED").await;
    assert_eq!(send_with_token(&server, Method::GET, "/api/auth/me", &current_token).await.status(), 200);
    expect_error(post_anonymously(&server, "/api/auth/login", login).await, 401, "INVALID_CREDENTIALS").await;
}

#[tokio::test]
async fn failed_sign_ins_are_rate_limited_and_old_tokens_expire() {
    let server =
        kit::start_server_with(&[], |config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]).await;
    server.service.accounts.add_user(None, "ada", Role::User, "correct horse").await.unwrap();
    server.service.clock.advance(Duration::ZERO);
    let login = async |password: &str, address: &str| {
        let body = json!({"username": "ada", "password": password});
        let request =
            server.request(Method::POST, "/api/auth/login").header("x-forwarded-for", format!("10.0.0.1, {address}"));
        request.json(&body).send().await.unwrap()
    };
    let mut errors = Vec::new();
    for _ in 0..5 {
        errors
            .push(expect_error(login("guess", "203.0.113.9").await, 401, "INVALID_CREDENTIALS").await["error"].clone());
    }
    let unknown_user = json!({"username": "stranger", "password": "guess"});
    let error =
        expect_error(post_anonymously(&server, "/api/auth/login", unknown_user).await, 401, "INVALID_CREDENTIALS")
            .await;
    assert_eq!(error["error"], errors[0], "an unknown user name gets the same answer");

    let answer = login("correct horse", "203.0.113.9").await;
    assert_eq!(answer.headers()["retry-after"], "12");
    expect_error(answer, 429, "RATE_LIMITED").await;
    server.service.clock.advance(Duration::from_secs(12));
    let token = token_of(&expect_success(login("correct horse", "203.0.113.9").await, 200).await);

    assert_eq!(send_with_token(&server, Method::GET, "/api/auth/me", &token).await.status(), 200);
    server.service.clock.advance(Duration::from_secs(31 * 86_400));
    expect_error(send_with_token(&server, Method::GET, "/api/auth/me", &token).await, 401, "TOKEN_EXPIRED").await;

    // A proxy appends its own header line; what the client sent before it is not trusted.
    let mut statuses = Vec::new();
    for number in 0..6 {
        let request =
            server.request(Method::POST, "/api/auth/login").header("x-forwarded-for", format!("10.9.8.{number}"));
        let body = json!({"username": format!("stranger{number}"), "password": "guess"});
        let answer = request.header("x-forwarded-for", "198.51.100.7").json(&body).send().await.unwrap();
        statuses.push(answer.status().as_u16());
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429]);
}

#[tokio::test]
async fn admins_list_and_revoke_stream_tokens_of_all_users() {
    let server = kit::start_server(&[]).await;
    let viewer = server.service.accounts.user_by_name("viewer").unwrap().id;
    let tokens_path = format!("/api/users/{viewer}/tokens");
    let create_token = async || {
        let answer = server.post("/api/livetv/tokens", &json!({"name": "Kodi"})).send().await.unwrap();
        let created = expect_success(answer, 201).await;
        (created["secret"].as_str().unwrap().to_owned(), created["token"]["id"].as_str().unwrap().to_owned())
    };
    let m3u_status = async |secret: &str| {
        server.request(Method::GET, &format!("/api/livetv/m3u?token={secret}")).send().await.unwrap().status().as_u16()
    };
    let as_admin = async |method: Method, path: &str| send_with_token(&server, method, path, &server.admin).await;
    let token_counts = async || {
        let users = expect_success(as_admin(Method::GET, "/api/users").await, 200).await["users"].clone();
        let user_named =
            |name: &str| users.as_array().unwrap().iter().find(|user| user["username"] == name).unwrap().clone();
        (user_named("viewer")["streamTokens"].clone(), user_named("operator")["streamTokens"].clone())
    };

    let (secret, id) = create_token().await;
    assert_eq!(token_counts().await, (json!(1), json!(0)));
    let listed = expect_success(as_admin(Method::GET, &tokens_path).await, 200).await;
    assert_eq!((&listed["tokens"][0]["id"], &listed["tokens"][0]["name"]), (&json!(id), &json!("Kodi")));
    assert!(!listed.to_string().contains(&secret), "secrets are shown once");
    let token_path = format!("{tokens_path}/{id}");
    expect_error(send_with_token(&server, Method::GET, &tokens_path, &server.token).await, 403, "FORBIDDEN").await;
    expect_error(send_with_token(&server, Method::DELETE, &token_path, &server.token).await, 403, "FORBIDDEN").await;
    expect_error(as_admin(Method::GET, "/api/users/u_unknown/tokens").await, 404, "NOT_FOUND").await;
    expect_error(as_admin(Method::DELETE, &format!("/api/users/u_unknown/tokens/{id}")).await, 404, "NOT_FOUND").await;
    assert_eq!(m3u_status(&secret).await, 200);
    assert_eq!(
        expect_success(as_admin(Method::DELETE, &token_path).await, 200).await,
        json!({"id": id, "deleted": true})
    );
    assert_eq!(m3u_status(&secret).await, 401);
    expect_error(as_admin(Method::DELETE, &token_path).await, 404, "NOT_FOUND").await;

    let (secret, _) = create_token().await;
    for (is_kept, status) in [(json!(true), 200), (Value::Null, 401)] {
        let body = json!({"newPassword": "battery staple", "keepStreamTokens": is_kept});
        let path = format!("/api/users/{viewer}/password");
        let reset = server.request(Method::POST, &path).bearer_auth(&server.admin).json(&body).send().await.unwrap();
        assert_eq!((reset.status().as_u16(), m3u_status(&secret).await), (204, status));
    }
    assert_eq!(token_counts().await, (json!(0), json!(0)));
}
