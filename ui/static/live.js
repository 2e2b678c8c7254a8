// Follows the page: the server sends the region anew when it has changed.
(() => {
  'use strict';
  const live = document.querySelector('[data-live]');
  if (!live || !window.EventSource) return;

  // merge makes the node old like the node fresh, and keeps what somebody has opened,
  // focused or typed into.
  const merge = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || (old.id || '') !== (fresh.id || '')) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old.nodeName === 'FORM') return;
    for (const a of [...old.attributes]) {
      if (!fresh.hasAttribute(a.name) && a.name !== 'open') old.removeAttribute(a.name);
    }
    for (const a of fresh.attributes) {
      if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    }
    children(old, fresh);
  };

  const children = (old, fresh) => {
    const named = new Map();
    for (const c of old.children) if (c.id) named.set(c.id, c);
    let at = old.firstChild;
    for (const f of [...fresh.childNodes]) {
      const known = f.id && named.get(f.id);
      if (known) {
        if (known === at) at = at.nextSibling;
        else old.insertBefore(known, at);
        named.delete(f.id);
        merge(known, f);
      } else if (!at || f.id || at.id) {
        old.insertBefore(f, at);
      } else {
        const next = at.nextSibling;
        merge(at, f);
        at = next;
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
    for (const c of named.values()) c.remove();
  };

  let stream;
  const open = () => {
    stream = new EventSource(location.href);
    stream.onopen = () => document.body.classList.add('follows');
    stream.onmessage = (e) => {
      const t = document.createElement('template');
      t.innerHTML = e.data;
      children(live, t.content);
    };
    stream.onerror = () => {
      document.body.classList.remove('follows');
      if (stream.readyState === EventSource.CLOSED) setTimeout(open, 5000);
    };
  };
  document.addEventListener('visibilitychange', () => {
    stream.close();
    if (!document.hidden) open();
  });
  open();
})();
