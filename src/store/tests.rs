use super::*;

#[tokio::test]
async fn records_survive_closing_and_come_back_by_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.put(Tree::Users, "u_2", &"second").await.unwrap();
    store.put(Tree::Users, "u_1", &"first").await.unwrap();
    store.put(Tree::Users, "u_1", &"first, changed").await.unwrap();
    assert!(store.delete(Tree::Users, "u_2").await.unwrap());
    assert!(!store.delete(Tree::Users, "u_2").await.unwrap());
    drop(store);

    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.get::<String>(Tree::Users, "u_1").unwrap().as_deref(), Some("first, changed"));
    assert_eq!(store.get::<String>(Tree::Users, "u_2").unwrap(), None);
    assert_eq!(store.get::<String>(Tree::Logins, "u_1").unwrap(), None);
    assert_eq!(store.scan::<String>(Tree::Users).unwrap(), [("u_1".to_owned(), "first, changed".to_owned())]);
}

#[tokio::test]
async fn writers_at_once_are_all_durable() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let writers = (0..200).map(|n| {
        let store = store.clone();
        async move { store.put(Tree::Probes, &format!("{n:03}"), &n).await }
    });
    assert!(futures_util::future::join_all(writers).await.into_iter().all(|outcome| outcome.is_ok()));
    drop(store);
    let values = Store::open(dir.path()).unwrap().scan::<u32>(Tree::Probes).unwrap();
    assert_eq!(values.into_iter().map(|(_, n)| n).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_damaged_record_is_an_error_never_missing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.put(Tree::Users, "u_1", &"first").await.unwrap();
    let tree = store.tree(Tree::Users);
    let mut sealed = tree.get("u_1").unwrap().unwrap().to_vec();

    tree.insert("u_9", sealed.clone()).unwrap();
    assert!(store.get::<String>(Tree::Users, "u_9").is_err(), "a value under another key");
    *sealed.last_mut().unwrap() ^= 1;
    tree.insert("u_1", sealed).unwrap();
    let error = store.get::<String>(Tree::Users, "u_1").unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (Code::Internal, "internal error"));
    assert!(error.cause.unwrap().starts_with("record users/u_1 cannot be read"));
    tree.insert("u_1", b"short").unwrap();
    assert!(store.get::<String>(Tree::Users, "u_1").is_err());
    assert!(store.scan::<String>(Tree::Users).is_err());
}

#[test]
fn a_second_process_is_told_who_holds_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let held = Store::open(dir.path()).unwrap();
    let error = Store::open(dir.path()).err().unwrap();
    assert_eq!(error.code, Code::Conflict);
    assert!(error.message.contains("is in use by a running hearthcast (process "), "{}", error.message);
    drop(held);
    Store::open(dir.path()).unwrap();
}

#[tokio::test]
async fn a_newer_layout_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.put(Tree::Meta, "format", &(FORMAT + 1)).await.unwrap();
    drop(store);
    let error = Store::open(dir.path()).err().unwrap();
    assert!(error.cause.unwrap().contains("written by another version"));
}
