// The live channel of Bongsu for browsers and Node.js 20, to copy. docs/live.md says why it does what it does.

const SEEN_IDS = 1000; // remembered, to show nothing twice: as many as a stream may begin with
const ACKNOWLEDGE_MS = 50; // an acknowledgement waits this long for others
const ACKNOWLEDGE_IDS = 1000; // in one request
const RETRY_MS = 2_000; // before the first new try, unless the server says otherwise; doubled each time
const RETRY_MOST_MS = 60_000;
const INBOX_PAGES = 10; // read after a gap, of a hundred each

export class BongsuLive {
  #options; #last; #seen; #waiting = new Set(); #flush; #failures = 0; #retry = RETRY_MS; #heartbeat = 15_000;
  #end = new AbortController(); #connection; #wake = () => {};

  // url: where the channel is (none: where the page is from); token: a function that gives the user's token, or a promise
  // of it (none: cookies are sent); storage: sessionStorage or the like, and name: the key in it, another one for each user.
  // Called: onNotification(notification), onState(state, error), onGap(reason), onError(error).
  constructor(options) {
    const calls = { onNotification() {}, onState() {}, onGap() {}, onError() {} };
    this.#options = { url: globalThis.location?.href, name: 'bongsu-live', ...calls, ...options };
    const { last = '', seen } = JSON.parse(options.storage?.getItem(this.#options.name) ?? '{}');
    [this.#last, this.#seen] = [last, new Set(seen)];
    const until = { signal: this.#end.signal };
    globalThis.addEventListener?.('online', () => this.wake(), until);
    globalThis.addEventListener?.('offline', () => this.#connection?.abort(new Error('offline')), until);
    this.#run();
  }

  // Whether this id was handed over before; it counts as such from now on. Ask it before you show a push.
  seen(id) {
    const before = this.#seen.has(id);
    this.#seen.add(id);
    if (this.#seen.size > SEEN_IDS) this.#seen.delete(this.#seen.values().next().value);
    this.#save();
    return before;
  }

  // A page of the inbox; query: { page_size, page_token, unread_only }.
  inbox = async (query = {}) => (await this.#call(`v1/inbox?${new URLSearchParams(query)}`)).json();
  // What was read: { notification_ids } or { up_to_event_id }.
  read = async (what) => (await this.#call('v1/inbox/read', { method: 'POST', body: JSON.stringify(what) })).json();

  // Tries again now: after a new login, for example.
  wake() { this.#failures = 0; this.#wake(); }
  close() { this.#end.abort(); this.#connection?.abort(); this.#wake(); }

  async #run() {
    while (!this.#end.signal.aborted) {
      this.#options.onState('connecting');
      let after, error;
      try { after = await this.#stream(); } catch (thrown) { error = thrown; }
      if (this.#end.signal.aborted) break;
      this.#options.onState('waiting', error);
      const backoff = Math.min(this.#retry * 2 ** this.#failures++, RETRY_MOST_MS) * (0.5 + Math.random() / 2);
      const pause = after ?? Math.max(backoff, error?.retryMs || 0);
      await new Promise((resolve) => { this.#wake = resolve; setTimeout(resolve, pause); });
    }
    this.#options.onState('closed');
  }

  // One connection, until it ends. Returns after how many ms the server wants to see us again, if it said so.
  async #stream() {
    const connection = this.#connection = new AbortController();
    let watchdog, after;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => connection.abort(new Error('no heartbeat')), 3 * this.#heartbeat);
    };
    try {
      alive();
      const query = new URLSearchParams(this.#last && { last_event_id: this.#last });
      const { body } = await this.#call(`v1/live?${query}`, { signal: connection.signal, cache: 'no-store' });
      for await (const { event, data, id, retry } of events(body, alive)) {
        if (retry) this.#retry = Number(retry);
        const told = data && JSON.parse(data);
        if (event === 'connected') {
          [this.#heartbeat, this.#failures] = [told.heartbeat_ms, 0];
          alive();
          this.#options.onState('live');
        }
        if (event === 'notification') { await this.#take(told); this.#last = id; this.#save(); }
        if (event === 'gap') await this.#catchUp(told.reason);
        if (event === 'reconnect') after = told.after_ms;
      }
      return after;
    } finally { clearTimeout(watchdog); connection.abort(); }
  }

  // Hands a notification over, once. What the app fails at is not acknowledged: a push may follow.
  async #take(notification) {
    const id = notification.notification_id;
    try {
      if (!this.seen(id)) await this.#options.onNotification(notification);
      if (!notification.acknowledged) this.#acknowledge(id);
    } catch (error) { this.#seen.delete(id); this.#options.onError(error); }
  }

  // What the stream cannot say any more, the inbox may.
  async #catchUp(reason) {
    this.#options.onGap(reason);
    this.#last = ''; // the next stream begins with what was not acknowledged, unless more comes on this one
    const missed = [];
    for (let page = 0, page_token = ''; page < INBOX_PAGES && (page === 0 || page_token); page++) {
      const found = await this.inbox({ page_size: 100, page_token, unread_only: true });
      missed.push(...found.notifications);
      page_token = found.next_page_token;
    }
    for (const notification of missed.reverse()) await this.#take(notification);
  }

  #acknowledge(id, inMs = ACKNOWLEDGE_MS) {
    this.#waiting.add(id);
    this.#flush ??= setTimeout(async () => {
      const notification_ids = [...this.#waiting].slice(0, ACKNOWLEDGE_IDS);
      const request = { method: 'POST', keepalive: true, body: JSON.stringify({ notification_ids }) };
      const failed = await this.#call('v1/live/acknowledge', request).then(() => {}, (error) => error);
      if (failed) this.#options.onError(failed); else notification_ids.forEach((done) => this.#waiting.delete(done));
      this.#flush = undefined;
      const [next] = this.#waiting;
      if (next && !this.#end.signal.aborted) this.#acknowledge(next, failed && Math.max(RETRY_MS, failed.retryMs || 0));
    }, inMs);
  }

  async #call(path, init = {}) {
    const token = await this.#options.token?.();
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    if (init.body) headers['Content-Type'] = 'application/json';
    const request = { credentials: token ? 'omit' : 'include', ...init, headers };
    const answer = await fetch(new URL(path, this.#options.url), request);
    if (answer.ok) return answer;
    const { error: { reason, message } = {} } = await answer.json().catch(() => ({}));
    const retryMs = 1000 * answer.headers.get('Retry-After') || 0;
    throw Object.assign(new Error(message ?? `HTTP ${answer.status}`), { status: answer.status, reason, retryMs });
  }

  #save() {
    const kept = JSON.stringify({ last: this.#last, seen: [...this.#seen] });
    try { this.#options.storage?.setItem(this.#options.name, kept); } catch (error) { this.#options.onError(error); }
  }
}

// The events of a stream of text/event-stream.
async function* events(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = '', event = {}; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      if (!line) { yield event; event = {}; continue; }
      const [, field, text] = /^([^:]*):? ?([^]*)$/.exec(line);
      event[field] = field === 'data' && 'data' in event ? `${event.data}\n${text}` : text;
    }
  }
}
