// Images that the server may have to make first: a few at a time, and only while they are near the window. A browser has six
// connections to a server; otherwise dozens of frames would keep them, and the requests of the next screen wait for seconds.

/** Images loaded at the same time: three connections are left to the event stream and to what the page requests. */
const MAX_LOADING = 3;

/** Images near the window, in the order in which they came there. */
const waiting = new Set();

const loading = new Set();

/** @type {IntersectionObserver | null} */
let observer = null;

const createObserver = () => new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) withdraw(target);
    else if (!loading.has(target)) waiting.add(target);
  }
  loadNext();
}, { rootMargin: "300px" });

/** Loads `image` from `srcset` once it is near the window. It is withdrawn while it is not, and when it leaves the page. */
export function loadNearWindow(image, srcset) {
  image.dataset.srcset = srcset;
  image.addEventListener("load", finish);
  image.addEventListener("error", finish);
  observer ??= createObserver();
  observer.observe(image);
}

function loadNext() {
  for (const image of waiting) {
    if (loading.size >= MAX_LOADING) return;
    waiting.delete(image);
    loading.add(image);
    image.srcset = image.dataset.srcset;
  }
}

function withdraw(image) {
  waiting.delete(image);
  if (!loading.delete(image)) return;
  image.removeAttribute("srcset"); // Ends its request, and with that the server's work for it.
}

function finish({ target }) {
  if (!loading.delete(target)) return;
  observer?.unobserve(target);
  loadNext();
}
