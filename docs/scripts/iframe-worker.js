// Search on a page that was opened from disk: browsers start no worker there. A frame that nobody sees runs the worker's script
// in its place. The offline plugin takes a file of this name instead of one that it would load from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.inside = new Promise(started => {
        frame.onload = () => {
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
