// The page that a sender serves with --live-page, to see the live channel at work. What others wrote is shown by
// textContent only.

import { BongsuLive } from './bongsu-live.js';

const LOG_LINES = 100;
const REFRESH_MS = 200; // what comes within this time is counted together
const TOKEN_KEY = 'bongsu-token'; // in sessionStorage: gone with the tab

const byId = (id) => document.getElementById(id);
const seq = (notification) => Number(notification.event_id.split('-').at(-1));
const shown = new Map(); // by notification id, as [notification, its list item]
const newestFirst = () => [...shown.values()].sort(([a], [b]) => seq(b) - seq(a));
let live, refreshing;
let turn = 0; // of the connections of this page: those before say nothing any more
let calls = Promise.resolve();

// The link has the token in its fragment, which no server ever sees; it need not stay in the address bar and the history.
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get('token');
  if (given) {
    sessionStorage.setItem(TOKEN_KEY, given);
    history.replaceState(null, '', location.pathname);
  }
  return given ?? sessionStorage.getItem(TOKEN_KEY);
}

// For the eyes only: whom the token is of is for the server to say.
function userOf(token) {
  try {
    const bytes = Uint8Array.from(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
    return String(JSON.parse(new TextDecoder().decode(bytes)).sub);
  } catch {
    return 'unknown user';
  }
}

function element(tag, text, className = '') {
  return Object.assign(document.createElement(tag), { textContent: text, className });
}

function log(text) {
  byId('log').prepend(element('li', `${new Date().toLocaleTimeString()}  ${text}`));
  while (byId('log').children.length > LOG_LINES) byId('log').lastChild.remove();
}

const why = (error) => error?.reason ?? error?.message ?? 'the stream ended';

function showState(state, error) {
  const words = { none: 'no token', connecting: 'connecting', live: 'connected', closed: 'closed' };
  const text = words[state] ?? `trying again: ${why(error)}`;
  byId('state').dataset.state = state;
  byId('state').textContent = text;
  log(text);
}

function showUnread(count) {
  byId('unread').textContent = count >= 1000 ? '1000+' : String(count);
  byId('unread').dataset.count = String(count);
  byId('read-all').disabled = count === 0;
}

function draw(notification) {
  const item = element('li', '');
  item.dataset.id = notification.notification_id;
  const data = Object.entries(notification.data).map(([key, value]) => `${key}: ${value}`).join(', ');
  item.append(element('h3', notification.title));
  if (notification.body) item.append(element('p', notification.body, 'body'));
  const about = [new Date(notification.create_time).toLocaleString(), `id ${notification.notification_id}`, data];
  item.append(element('p', about.filter(Boolean).join(' · '), 'about'));
  if (notification.read) {
    item.classList.add('read');
  } else {
    const button = element('button', 'Mark read');
    button.onclick = () => read({ notification_ids: [notification.notification_id] }, [notification]);
    item.append(button);
  }
  return item;
}

// Newest first, whatever order they come in; one that is there is drawn again as it is now.
function show(notification) {
  const item = draw(notification);
  const before = shown.get(notification.notification_id);
  if (before) {
    before[1].replaceWith(item);
  } else {
    const older = newestFirst().find(([other]) => seq(other) < seq(notification));
    byId('list').insertBefore(item, older?.[1] ?? null);
  }
  shown.set(notification.notification_id, [notification, item]);
}

// One call after the other, so that no older answer comes over a newer one.
function call(what, then) {
  const mine = turn;
  calls = calls.then(async () => {
    if (mine !== turn) return;
    try {
      const answer = await what();
      if (mine === turn) then(answer);
    } catch (error) {
      log(`the inbox does not answer: ${why(error)}`);
    }
  });
}

function read(what, notifications) {
  call(() => live.read(what), ({ unread_count }) => {
    for (const notification of notifications) show({ ...notification, read: true });
    showUnread(unread_count);
  });
}

function refresh() {
  refreshing ??= setTimeout(() => {
    refreshing = undefined;
    call(() => live.inbox({ page_size: 50 }), ({ notifications, unread_count }) => {
      notifications.forEach(show);
      showUnread(unread_count);
    });
  }, REFRESH_MS);
}

function start() {
  const mine = ++turn;
  live?.close();
  shown.clear();
  byId('list').replaceChildren();
  showUnread(0);
  const token = takeToken();
  byId('login').hidden = Boolean(token);
  byId('inbox').hidden = !token;
  byId('user').textContent = byId('example-user').textContent = token ? userOf(token) : '';
  if (!token) {
    showState('none');
    return;
  }
  live = new BongsuLive({
    url: location.href,
    token: () => token,
    storage: sessionStorage,
    name: `bongsu-live-${userOf(token)}`,
    onState(state, error) {
      if (mine !== turn) return;
      showState(state, error);
      if (state === 'live') refresh();
      if (state !== 'connecting') byId('login').hidden = error?.status !== 401;
    },
    onGap: (reason) => log(`a gap (${reason}): reading the inbox`),
    onError: (error) => log(why(error)),
    onNotification(notification) {
      if (mine !== turn) return;
      log(`notification ${notification.notification_id}`);
      show(notification);
      refresh();
    },
  });
}

byId('login').onsubmit = (event) => {
  event.preventDefault();
  location.hash = new URLSearchParams({ token: byId('token').value.trim() });
  byId('token').value = '';
};
byId('leave').onclick = () => {
  sessionStorage.removeItem(TOKEN_KEY);
  start();
};
byId('read-all').onclick = () => {
  const all = newestFirst().map(([notification]) => notification);
  if (all.length > 0) read({ up_to_event_id: all[0].event_id }, all);
};
addEventListener('hashchange', () => location.hash && start());
addEventListener('visibilitychange', () => !document.hidden && live && refresh());
start();
