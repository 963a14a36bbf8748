'use strict';
// Enhancements only. Selecting a step marks the same step in the other panel.
document.addEventListener('click', function (click) {
  var step = click.target.closest('[data-event]');
  if (!step) return;
  var finding = step.closest('[data-finding]');
  document.querySelectorAll('.on').forEach(function (other) { other.classList.remove('on'); });
  finding.querySelectorAll('[data-event="' + step.dataset.event + '"]').forEach(function (twin) {
    twin.classList.add('on');
  });
});
// The controls above the table show some of the findings.
var choose = document.getElementById('choose');
if (choose) {
  choose.hidden = false;
  choose.addEventListener('submit', function (submit) { submit.preventDefault(); });
  choose.addEventListener('input', function () {
    var words = choose.words.value.toLowerCase().split(/\s+/);
    var off = Array.prototype.map.call(
      choose.querySelectorAll('[type=checkbox]:not(:checked)'), function (box) { return box.value; });
    var shown = 0;
    document.querySelectorAll('[data-row]').forEach(function (row) {
      var is = row.dataset.is.split(' ');
      var article = document.getElementById(row.dataset.row);
      var text = (row.textContent + ' ' + article.querySelector('h1').textContent).toLowerCase();
      row.hidden = is.some(function (word) { return off.indexOf(word) >= 0; }) ||
        !words.every(function (word) { return text.indexOf(word) >= 0; });
      article.hidden = row.hidden;
      shown += row.hidden ? 0 : 1;
    });
    document.querySelectorAll('tbody').forEach(function (group) {
      group.hidden = !group.querySelector('[data-row]:not([hidden])');
    });
    document.getElementById('none').hidden = shown > 0;
  });
}
