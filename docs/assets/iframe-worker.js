// Browsers start no worker for a page that was opened from disk: there the search runs in a hidden frame of the page. The offline
// plugin takes a script of this name instead of one that every page would load from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.inside = new Promise(started => {
        frame.onload = () => { // what is put into a frame's first document, Firefox replaces
          const inside = frame.contentWindow
          inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
          const element = inside.document.createElement("script")
          element.src = script
          element.onload = () => started(inside)
          inside.document.head.append(element)
        }
      })
      frame.srcdoc = "<!doctype html>"
      document.body.append(frame)
    }

    postMessage(data) {
      this.inside.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
