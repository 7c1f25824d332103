//! The levels above the first.

use core::ops::{Index, IndexMut};

use super::MAX_LEVELS;

/// One value for each level from 1 on. It is in place, so that the memory of a filter is that of its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upper<T>([Option<T>; MAX_LEVELS as usize - 1]);

impl<T> Upper<T> {
    pub(super) fn new() -> Self {
        Self([const { None }; MAX_LEVELS as usize - 1])
    }

    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// Adds the next level, unless there are as many as there can be.
    pub(super) fn push(&mut self, value: T) {
        if let Some(level) = self.0.iter_mut().find(|level| level.is_none()) {
            *level = Some(value);
        }
    }
}

impl<T> FromIterator<T> for Upper<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut upper = Self::new();
        values.into_iter().for_each(|value| upper.push(value));
        upper
    }
}

impl<T> Index<usize> for Upper<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.0[index].as_ref().expect("the shape has this level")
    }
}

impl<T> IndexMut<usize> for Upper<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.0[index].as_mut().expect("the shape has this level")
    }
}
