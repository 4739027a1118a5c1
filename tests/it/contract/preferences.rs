//! Preferences: the same on each device of a user.

use hearthcast::domain::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server};

const PREFERENCES: &str = "/api/preferences";

async fn read(server: &Server, token: &str) -> Value {
    let request = server.request(Method::GET, PREFERENCES).bearer_auth(token);
    expect_success(request.send().await.unwrap(), 200).await["preferences"].clone()
}

#[tokio::test]
async fn preferences_follow_the_user_to_another_device() {
    let server = kit::start_server(&[]).await;
    let accounts = &server.service.accounts;
    let sign_in = async |name: &str| accounts.issue_token(name, Role::User).await.unwrap();
    let (phone, television, other) = (sign_in("ada").await, sign_in("ada").await, sign_in("bob").await);
    let none = json!({"languages": {"audio": null, "subtitle": null}, "series": [], "favourites": []});
    assert_eq!(read(&server, &phone).await, none);
    let change = async |token: &str, body: &Value| {
        server.request(Method::PATCH, PREFERENCES).bearer_auth(token).json(body).send().await.unwrap()
    };
    let chosen = json!({"languages": {"audio": "de"}, "series": {"series": "/lib/Show", "subtitle": "off"}, "addFavourites": [7, 8]});
    expect_success(change(&phone, &chosen).await, 200).await;
    // Another device changes something else, and undoes nothing.
    let answer = expect_success(change(&television, &json!({"removeFavourites": [7]})).await, 200).await;
    let expected = json!({"languages": {"audio": "de", "subtitle": null}, "favourites": [8],
        "series": [{"series": "/lib/Show", "audio": null, "subtitle": "off"}]});
    assert_eq!((&answer["preferences"], read(&server, &phone).await), (&expected, expected.clone()));
    assert_eq!(read(&server, &other).await, none);
    for (field, body) in [
        ("languages.audio", json!({"languages": {"audio": "no language"}})),
        ("series.subtitle", json!({"series": {"series": "a", "subtitle": ""}})),
        ("series.series", json!({"series": {"series": "", "audio": "de"}})),
        ("addFavourites", json!({"addFavourites": vec![1; 501]})),
    ] {
        let refusal = expect_error(change(&phone, &body).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], field, "{refusal}");
    }
    let user_id = accounts.user_by_name("ada").unwrap().id;
    accounts.remove_user(&user_id).await.unwrap();
    assert_eq!(accounts.preferences(&user_id).unwrap(), Default::default(), "they end with the user");
}
