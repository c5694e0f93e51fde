//! Which line of the file a row of the stream came from.

/// Pairs of row and line, both growing. Rows that follow each other line by line – nearly all – share an entry, so that
/// a file of millions of rows needs a handful of them.
#[derive(Debug, Default)]
pub struct LineMap {
    /// First row and first line of each run.
    runs: Vec<(u64, u64)>,
    rows: u64,
}

impl LineMap {
    /// The next row came from this line.
    pub fn push(&mut self, line: u64) {
        let continues = self.runs.last().is_some_and(|(row, first)| first + (self.rows - row) == line);
        if !continues {
            self.runs.push((self.rows, line));
        }
        self.rows += 1;
    }

    /// The line of a row, both counted as the caller of [`LineMap::push`] did: rows from 0.
    pub fn line(&self, row: u64) -> Option<u64> {
        if row >= self.rows {
            return None;
        }
        let run = self.runs.partition_point(|(first, _)| *first <= row).checked_sub(1)?;
        let (first, line) = self.runs.get(run)?;
        Some(line + (row - first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_find_their_lines_and_regular_rows_cost_nothing() {
        let mut map = LineMap::default();
        let lines = [2, 3, 4, 7, 8, 20];
        lines.iter().for_each(|line| map.push(*line));
        let found: Vec<Option<u64>> = (0..7).map(|row| map.line(row)).collect();
        assert_eq!(found, [Some(2), Some(3), Some(4), Some(7), Some(8), Some(20), None]);
        assert_eq!(map.runs.len(), 3);
        assert_eq!(LineMap::default().line(0), None);
    }
}
