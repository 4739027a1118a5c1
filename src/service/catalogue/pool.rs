//! Texts that many items share, each in memory once: genres and people.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::catalogue::fold::fold;
use crate::domain::catalogue::search_index::{Field, SearchIndex};

/// Shared texts by number. A text without uses is removed.
#[derive(Default)]
pub(super) struct TextPool {
    texts: Vec<Option<PooledText>>,
    by_text: HashMap<Arc<str>, u32>,
    free: Vec<u32>,
    search: SearchIndex,
}

struct PooledText {
    text: Arc<str>,
    uses: u32,
}

impl TextPool {
    pub(super) fn acquire(&mut self, text: &str) -> u32 {
        if let Some(number) = self.by_text.get(text) {
            self.texts[*number as usize].as_mut().expect("a listed text exists").uses += 1;
            return *number;
        }
        let text: Arc<str> = text.into();
        let pooled = Some(PooledText { text: text.clone(), uses: 1 });
        let number = match self.free.pop() {
            Some(number) => {
                self.texts[number as usize] = pooled;
                number
            }
            None => {
                self.texts.push(pooled);
                (self.texts.len() - 1) as u32
            }
        };
        self.search.insert(number, Field::Title, &text);
        self.by_text.insert(text, number);
        number
    }

    pub(super) fn release(&mut self, number: u32) {
        let slot = &mut self.texts[number as usize];
        let Some(pooled) = slot else { return };
        pooled.uses -= 1;
        if pooled.uses == 0 {
            self.by_text.remove(&pooled.text);
            self.search.remove(number, &pooled.text);
            *slot = None;
            self.free.push(number);
        }
    }

    /// Gives back memory that many insertions left unused.
    pub(super) fn compact(&mut self) {
        self.texts.shrink_to_fit();
        self.by_text.shrink_to_fit();
        self.search.compact();
    }

    pub(super) fn get(&self, number: u32) -> &str {
        self.texts[number as usize].as_ref().map_or("", |pooled| &pooled.text)
    }

    /// The numbers of texts that are equal after folding.
    pub(super) fn find_folded(&self, text: &str) -> Vec<u32> {
        let folded = fold(text);
        let found = self.search.find(text).into_iter().map(|(number, _)| number);
        found.filter(|number| fold(self.get(*number)) == folded).collect()
    }

    /// The numbers of texts found by a query, the best first, with their points and the number of items.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<(u32, u32)> {
        let mut found = self.search.find(query);
        found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| self.get(a.0).cmp(self.get(b.0))));
        found.truncate(limit);
        found
            .into_iter()
            .map(|(number, _)| (number, self.texts[number as usize].as_ref().map_or(0, |text| text.uses)))
            .collect()
    }
}
