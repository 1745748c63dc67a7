// The brain inspector in a real browser, on a real herm server.
//
//   HERM_PAGE_URL      where the server listens, for example http://127.0.0.1:7777; needed
//   HERM_PAGE_KEY      a key with every operation, if the server has keys
//   HERM_PAGE_SHOTS    a directory for screenshots of every view, light and dark
//   HERM_PAGE_BROWSER  the browser; /usr/bin/chromium unless said
//
// The server has a brain 1 that has run tasks. The first test gives it one more, and later ones look for its traces.

import "./views.mjs";
import "./trust.mjs";
import "./hostile.mjs";
import "./reach.mjs";
