//! Artwork in the guide: entries have the addresses of their items' images.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_the_guide_have_the_artwork_of_their_items() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("Movies/Alien (1979)");
    Films::new(root.path(), 3000).write("Movies/Alien (1979)/Alien (1979).mp4");
    let make_image = |name: &str| {
        media::run_ffmpeg(&folder.join(name), &["-f lavfi -i", "testsrc2=s=60x90:d=1", "-frames:v 1"]);
    };
    make_image("poster.jpg");
    let server = start(root.path()).await;
    let item = get(&server, "/api/library/items").await["items"][0].clone();
    let rule = json!({"kind": "folder", "value": root.path()});
    let body = json!({"name": "Films", "scheduleMode": "sequential", "items": [{"rule": rule}]});
    let channel = add_channel(&server, &body).await;

    let now = server.service.clock.now();
    let target = format!("/api/livetv/epg?channelId={}&from={now}&to={}", channel["id"], now + Duration::from_secs(60));
    let first = server.get(&target).send().await.unwrap();
    let etag = first.headers()["etag"].clone();
    let entries = expect_success(first, 200).await["entries"].clone();
    let artwork = &entries[0]["artwork"];
    assert_eq!((artwork, artwork["poster"].is_string()), (&item["artwork"], true));
    let poster = format!("{}{}", server.base, artwork["poster"].as_str().unwrap());
    assert_eq!(server.client.get(poster).send().await.unwrap().status(), 200, "without credentials of its own");
    let current = get(&server, &format!("/api/livetv/now?channelId={}", channel["id"])).await;
    assert_eq!(&current["current"]["entry"]["artwork"], artwork);
    assert_eq!(&get(&server, CHANNELS).await["channels"][0]["now"]["artwork"], artwork);
    let found = get(&server, "/api/library/search?q=alien").await;
    assert_eq!(found["guide"].as_array().unwrap().first().map(|entry| &entry["artwork"]), Some(artwork));

    let again = async || server.get(&target).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!(again().await.status(), 304);
    make_image("fanart.jpg");
    let has_backdrop = |answer: &Value| answer["items"][0]["artwork"]["backdrop"].is_string();
    wait_for(&server, "/api/library/items", has_backdrop).await;
    let changed = expect_success(again().await, 200).await;
    assert!(changed["entries"][0]["artwork"]["backdrop"].is_string(), "{changed:#}");
}
