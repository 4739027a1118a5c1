//! Channels by playlist: M3U and PLS files in the library are a kind of rule, whose edits they follow.

use super::*;

/// The titles of a channel's items, in their order.
async fn aired(server: &Server, channel: &Value, from_ms: i64) -> Vec<String> {
    let from = jiff::Timestamp::from_millisecond(from_ms).unwrap();
    let answer = get(server, &format!("/api/livetv/epg?channelId={}&from={from}", channel["id"])).await;
    let entries = answer["entries"].as_array().unwrap().iter();
    entries.take(4).map(|entry| entry["title"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_by_playlist_follows_its_edits() {
    let root = tempfile::tempdir().unwrap();
    let mut films = Films::new(root.path(), 300);
    for name in ["Alien (1979)", "Brazil (1985)", "Casablanca (1942)"] {
        films.write(&format!("Movies/{name}.mp4"));
    }
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        std::fs::write(path.with_extension("new"), text).unwrap();
        std::fs::rename(path.with_extension("new"), &path).unwrap();
        path
    };
    let list = write(
        "Evening.m3u8",
        "#EXTM3U\nMovies/Casablanca (1942).mp4\nhttp://x.example/a.ts\nMovies/Alien (1979).mp4\n../out.mp4\n",
    );
    write("Movies/One.pls", &format!("[playlist]\nFile1={}/Movies/Brazil (1985).mp4\n", root.path().display()));
    let server = start(root.path()).await;
    let lists = get(&server, "/api/library/playlists").await;
    let expected = json!([
        {"path": list, "name": "Evening", "fileCount": 3, "itemCount": 2},
        {"path": root.path().join("Movies/One.pls"), "name": "One", "fileCount": 1, "itemCount": 1}]);
    assert_eq!(lists["playlists"], expected);

    let rule = json!({"kind": "playlist", "value": list});
    let body = json!({"name": "Evening", "scheduleMode": "sequential", "guide": {"minProgrammeSeconds": 0},
        "items": [{"rule": rule}]});
    let channel = add_channel(&server, &body).await;
    assert_eq!((&channel["items"][0]["rule"], &channel["itemCount"]), (&rule, &json!(2)));
    let from = hours_from(&server, 0);
    assert_eq!(aired(&server, &channel, from).await, ["Casablanca", "Alien", "Casablanca", "Alien"]);
    let published = guide(&server, &channel, from, hours_from(&server, 6)).await;

    write("Evening.m3u8", "Movies/Brazil (1985).mp4\nMovies/Alien (1979).mp4\nMovies/Casablanca (1942).mp4\n");
    wait_for_items(&server, &channel, 3).await;
    assert_eq!(guide(&server, &channel, from, hours_from(&server, 6)).await[..published.len()], published);
    let later = aired(&server, &channel, hours_from(&server, 8)).await;
    let at = later.iter().position(|title| title == "Brazil").unwrap();
    if at < 3 {
        assert_eq!(later[at + 1], "Alien", "{later:?}");
    }

    // Without the file the channel keeps its items.
    std::fs::remove_file(&list).unwrap();
    wait_for(&server, "/api/library/playlists", |answer| answer["playlists"].as_array().unwrap().len() == 1).await;
    wait_for_items(&server, &channel, 3).await;
    let outside = json!({"name": "x", "items": [{"rule": {"kind": "playlist", "value": "/nowhere/a.m3u"}}]});
    assert_eq!(send_as_admin(&server, Method::POST, CHANNELS, &outside).await.status(), 403);
    for (rule, field) in
        [(json!({"kind": "playlist"}), "items[0].rule.value"), (json!({"kind": "playlist", "value": list}), "items")]
    {
        let body = json!({"name": "x", "items": [{"rule": rule}]});
        expect_refused_field(&server, Method::POST, CHANNELS, &body, field).await;
    }
}
