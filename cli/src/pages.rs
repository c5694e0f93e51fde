//! Walking through a list page by page.

use crate::error::Failure;
use crate::output::Output;

/// How much of a list to show.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub struct Limit {
    /// How many to show at most; 0: all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u64,
}

/// Asks `fetch` for pages – given their size and the token of the page before – until the limit or the end, and gives
/// each to `print` before it asks for the next, so that memory holds one page. Says so where the limit cut the list.
pub async fn walk<T>(
    output: Output,
    limit: &Limit,
    max_page: i32,
    mut fetch: impl AsyncFnMut(i32, String) -> Result<(Vec<T>, String), Failure>,
    mut print: impl FnMut(Vec<T>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut left = if limit.limit == 0 { u64::MAX } else { limit.limit };
    let mut token = String::new();
    loop {
        let size = i32::try_from(left).map_or(max_page, |left| left.min(max_page));
        let (items, next) = fetch(size, token).await?;
        left = left.saturating_sub(items.len() as u64);
        print(items)?;
        if next.is_empty() {
            return Ok(());
        }
        if left == 0 {
            output.note(&format!(
                "there are more than these {}: raise --limit, or give --limit 0 for all",
                limit.limit
            ));
            return Ok(());
        }
        token = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn walked(limit: u64) -> (Vec<i32>, Vec<i32>) {
        let (mut sizes, mut seen) = (Vec::new(), Vec::new());
        let fetch = async |size: i32, token: String| {
            sizes.push(size);
            let from = token.parse::<i32>().unwrap_or(0);
            let to = (from + size).min(7);
            Ok(((from..to).collect(), if to < 7 { to.to_string() } else { String::new() }))
        };
        let print = |items: Vec<i32>| {
            seen.extend(items);
            Ok(())
        };
        walk(Output { json: false }, &Limit { limit }, 3, fetch, print).await.expect("nothing fails here");
        (seen, sizes)
    }

    #[tokio::test]
    async fn pages_end_at_the_limit_or_with_the_list() {
        assert_eq!(walked(0).await, ((0..7).collect(), vec![3, 3, 3]));
        assert_eq!(walked(4).await, ((0..4).collect(), vec![3, 1]));
        assert_eq!(walked(100).await, ((0..7).collect(), vec![3, 3, 3]));
    }
}
